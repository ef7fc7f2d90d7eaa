# The rows of R for benchmarks/other_tools.py, which calls this with a folder of tables.
suppressPackageStartupMessages({
  library(ranger)
  library(caret)
  library(jsonlite)
})

folder <- commandArgs(trailingOnly = TRUE)[1]
events <- read.csv(file.path(folder, "events.csv"))
classes <- read.csv(file.path(folder, "classes.csv"))[1:300, ]

row <- function(tool, value) {
  list(tool = tool, version = as.character(packageVersion(tool)), value = value)
}

# A factor of two classes, "no" first, as R makes it from text.
yes <- factor(ifelse(events$event == 1, "yes", "no"))
classes$labels <- factor(classes$labels)
forest <- ranger(
  labels ~ ., classes, probability = TRUE, num.trees = 100, seed = 1, num.threads = 1
)
rare <- data.frame(
  obs = factor(ifelse(events$rare == 1, "yes", "no"), levels = c("yes", "no")),
  p = events$rare_claimed
)
curve <- calibration(obs ~ p, data = rare, class = "yes", cuts = 10)$data

rows <- list(
  ranger_brier = row("ranger", forest$prediction.error),
  ranger_probabilities = row("ranger", unname(round(forest$predictions, 6))),
  caret_percent = row("caret", curve$Percent),
  caret_count = row("caret", curve$Count),
  modelmetrics_brier_of_factor = row("ModelMetrics", ModelMetrics::brier(yes, events$claimed)),
  modelmetrics_brier_of_numbers = row(
    "ModelMetrics", ModelMetrics::brier(events$event, events$claimed)
  ),
  mlmetrics_prauc = row("MLmetrics", MLmetrics::PRAUC(events$levels, events$rare))
)
cat("\n", toJSON(rows, auto_unbox = TRUE, digits = 12), "\n", sep = "")
