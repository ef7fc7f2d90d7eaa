"""The one line that `make book` says again and again counts runs, pages and the book by cost."""

from calibkit.companion import progress


def test_what_is_there_already_does_not_count_and_the_last_line_is_whole(tmp_path):
    files = [tmp_path / name for name in "abc"]
    files[0].touch()
    lines = []

    def say(line):
        lines.append(line)
        for file in files[2:]:
            file.touch()

    thread = progress.follow({str(files[0]): 50, str(files[1]): 1, str(files[2]): 3}, 0.05, say)
    files[1].touch()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert lines[0].startswith("25 % done, about ")
    assert lines[-1] == "100 % done, about 0.0 min left"


def test_nothing_to_do_is_nothing_to_say(tmp_path):
    (tmp_path / "a").touch()
    thread = progress.follow({str(tmp_path / "a"): 1}, 0.01, lambda line: 1 / 0)
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_an_even_pace_is_told_as_it_is():
    for left in (90, 50, 10):
        minutes = float(progress.estimate(100, left, 600 - 6 * left).split()[-3])
        assert minutes == left / 10
