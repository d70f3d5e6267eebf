#!/usr/bin/env python3
"""The check of the documentation finds output that is not true, and accepts only the differences that are allowed."""

import pathlib
import tempfile
import unittest

import outputs
import pages
import session


def same(shown: str, real: str) -> bool:
    return outputs.differences(shown.split("\n"), real.split("\n")) == ""


class Differences(unittest.TestCase):
    def test_any_other_word_or_number_is_one(self) -> None:
        self.assertTrue(same("8 steps\nall well", "8 steps\nall well"))
        self.assertFalse(same("8 steps", "9 steps"))
        self.assertFalse(same("  8 steps", "8 steps"))
        self.assertFalse(same("a\nb", "a"))
        self.assertFalse(same("a", "a\nb"))
        self.assertFalse(same("work 1.0304", "work 1.0305"))

    def test_times_and_speeds_may_differ_but_not_the_words_around_them(self) -> None:
        self.assertTrue(same("tp 2: 0.126 seconds", "tp 2: 12.5 seconds"))
        self.assertFalse(same("tp 2: 0.126 seconds", "tp 4: 0.126 seconds"))
        self.assertTrue(same("seconds  0.1 (read 0.005, plan 0.1)", "seconds 10.1 (read 1.005, plan 0.2)"))
        self.assertFalse(same("seconds  0.1 (read 0.005, plan 0.1)", "seconds  0.1 (read 0.005, pack 0.1)"))
        self.assertTrue(same("  most memory of tensors on a rank   3.1 MiB", "  most memory of tensors on a rank   2.3 MiB"))
        self.assertFalse(same("  bytes a rank kept   3.1 MiB", "  bytes a rank kept   2.3 MiB"))
        self.assertTrue(same("planned in 0.0001 s", "planned in 1.2 s"))
        self.assertTrue(same("step 8/8, 35.27 M tokens/s, 0 s left", "step 8/8, 3.1 M tokens/s, 2 s left"))

    def test_a_row_of_seconds_may_be_broken_anywhere(self) -> None:
        row = "  seconds   0.1 (read 0.005,\n" + " " * 38 + "plan 0.1)\n  bytes 3"
        self.assertTrue(same(row, "  seconds   10.1 (read 0.005, plan 12.1)\n  bytes 3"))
        self.assertFalse(same(row, "  seconds   10.1 (read 0.005, plan 12.1)\n  bytes 4"))

    def test_the_last_column_under_a_heading_of_seconds_may_differ(self) -> None:
        table = "way  count   seconds\nfirst     3    0.0075"
        self.assertTrue(same(table, table.replace("0.0075", "0.0081")))
        self.assertFalse(same(table, table.replace("3", "4")))
        self.assertFalse(same("tp 2: 0.1 seconds\n  tokens 5", "tp 2: 0.1 seconds\n  tokens 6"))

    def test_dots_match_any_lines(self) -> None:
        self.assertTrue(same("...\nend", "a\nb\nend"))
        self.assertTrue(same("a\n...\nc\n...", "a\nb\nb\nc"))
        self.assertTrue(same("a\n...", "a"))
        self.assertFalse(same("a\n...\nc", "a\nb"))
        self.assertFalse(same("...\nb", "b\nc"))

    def test_log_lines_are_compared_only_if_some_are_shown(self) -> None:
        log = "[02:27:01.986] [rank 0] [info] 2048 samples, 8 steps"
        self.assertTrue(same("done", log + "\ndone"))
        self.assertTrue(same(log.replace("02:27", "03:00") + "\ndone", "done\n" + log))
        self.assertFalse(same(log.replace("2048", "2047") + "\ndone", log + "\ndone"))


class Renewed(unittest.TestCase):
    def renew(self, shown: str, real: str) -> str:
        return "\n".join(outputs.renew(shown.split("\n"), real.split("\n")))

    def test_shown_output_becomes_the_real_one(self) -> None:
        self.assertEqual(self.renew("old", "new\nand more  "), "new\nand more")

    def test_omitted_lines_stay_omitted(self) -> None:
        real = "title 2\n1 sample\nprompt\n  min 3\nresponse\n  min 4\nfields\n  reward\n  turn"
        self.assertEqual(self.renew("title 1\n...\nresponse\n  min 9\n...\nfields\n  reward", real),
                         "title 2\n...\nresponse\n  min 4\n...\nfields\n  reward\n  turn")
        self.assertEqual(self.renew("title 1\n...", real), "title 2\n...")


class Blocks(unittest.TestCase):
    def blocks(self, text: str) -> list[pages.Block]:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "page.md").write_text(text, encoding="utf-8")
            return pages.blocks_of(pathlib.Path(folder), "page.md")

    def test_a_block_without_a_known_task_is_an_error(self) -> None:
        for text in ("```\nx\n```\n", "```python\nx\n```\n", "<!-- check: skip -->\n```sh\nx\n```\n", "```sh\nx\n"):
            with self.assertRaises(pages.PageError):
                self.blocks(text)
        self.assertEqual(self.blocks("<!-- check: not run: no need -->\n```python\nx\n```\n")[0].detail, "no need")

    def test_commands_may_span_lines_and_here_documents(self) -> None:
        text = "```console\n$ a \\\n    b\nout\n\n$ cat <<'END'\n$ x\nEND\n$ x\n```\n"
        commands = self.blocks(text)[0].commands()
        self.assertEqual([c.text for c in commands], ["a \\\n    b", "cat <<'END'\n$ x\nEND", "x"])
        self.assertEqual([c.shown for c in commands], [["out"], [], []])
        self.assertEqual((commands[0].begin, commands[0].end), (3, 4))
        script = self.blocks("```sh\n# first\na\n\nfor x in 1; do\n  b\ndone\n```\n")[0]
        self.assertEqual([c.text for c in script.commands()], ["a", "for x in 1; do\n  b\ndone"])


class Shell(unittest.TestCase):
    def test_the_message_about_a_killed_background_process_is_not_output_of_the_next_command(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with session.Session(folder, folder) as shell:
                for _ in range(20):
                    shell.run("sleep 60 &")
                    shell.run("kill -9 $!")
                    self.assertEqual(shell.run("sleep 0.01; echo done")[0], 0)


if __name__ == "__main__":
    unittest.main()
