#!/usr/bin/env bash
# e1071 1.7-13 (Debian 12: r-cran-e1071 1.7-13-1, R 4.2.2), naiveBayes with numeric features.
# Guess: as in every naive Bayes the unit of a feature does not matter, and a row far from a class
#   gets a probability near 0 for it.
# Seen: predict() replaces a density that underflows to 0 by threshold = 0.001. In a wide class
#   densities are small: below 1/2000 where the standard deviation is 1,000. So the class that is
#   500 deviations away wins over the class to which the row belongs. The same rows in thousands
#   are answered otherwise.
# Wrong number: accuracy 0.50 with an income in dollars, 1.00 with the same income in thousands;
#   every rich row is answered "fixed" with a probability of 0.98.
set -euo pipefail
if ! dpkg-query -W r-cran-e1071 2>/dev/null | grep -q 1.7-13; then
    apt-get install -y -qq r-cran-e1071=1.7-13-1 >/dev/null  # into the system: Debian 12, as root
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
Rscript - <<'EOF'
suppressMessages(library(e1071))
set.seed(1)
n <- 2000
class <- factor(rep(c("fixed", "free"), each = n / 2))
dollars <- c(rnorm(n / 2, 20000, 100), rnorm(n / 2, 60000, 15000))
train <- rep(c(TRUE, FALSE), n / 2)

answers <- function(income) {
  model <- naiveBayes(data.frame(income = income[train]), class[train])
  new <- data.frame(income = income[!train])
  list(class = predict(model, new), p = predict(model, new, type = "raw"))
}
by_dollars <- answers(dollars)
by_thousands <- answers(dollars / 1000)
# Bayes' rule in logarithms, from the same means and deviations.
x <- dollars[!train]
scores <- sapply(levels(class), function(k) {
  of_class <- dollars[train & class == k]
  dnorm(x, mean(of_class), sd(of_class), log = TRUE)
})
by_hand <- levels(class)[max.col(scores)]

accuracy <- function(found) mean(found == class[!train])
rich <- x > 25000 & class[!train] == "free"
says_fixed <- mean(by_dollars$p[rich, "fixed"])
cat("e1071", as.character(packageVersion("e1071")), "\n")
cat("accuracy: dollars", accuracy(by_dollars$class), "thousands", accuracy(by_thousands$class),
    "by hand", accuracy(by_hand), "\n")
cat("mean probability of 'fixed' where the income is above 25,000:", says_fixed, "\n")
stopifnot(packageVersion("e1071") == "1.7.13")
stopifnot(accuracy(by_dollars$class) < 0.6, accuracy(by_thousands$class) > 0.95)
stopifnot(accuracy(by_hand) > 0.95, says_fixed > 0.95)
EOF
