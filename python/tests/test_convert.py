"""Datasets become JSON lines of rollouts. All kinds of tokens and masks are read, and nothing is lost silently."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import evenkeel
from evenkeel import convert
from evenkeel.convert.__main__ import main


@pytest.fixture
def lines_of(tmp_path):
    """Returns the lines made from rows, and the messages."""
    def convert_rows(rows, **options):
        summary = convert.to_jsonl(rows, tmp_path / "out.jsonl", overwrite=True, **options)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl"]
        return [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()], summary

    return convert_rows


def chat(tokens, mask, **more):
    return {"input_ids": tokens, "assistant_masks": mask, **more}


def test_a_response_begins_at_the_first_masked_token_and_later_user_turns_have_no_loss(lines_of):
    rows = [chat([5, 6, 7, 8, 9, 10], [0, 0, 1, 0, 0, 1], uid="q"), chat([1, 2], [0, 1], uid="r")]
    lines, summary = lines_of(rows)
    assert lines[0] == {"uid": "q", "prompt_ids": [5, 6], "response_ids": [7, 8, 9, 10], "loss_mask": [1, 0, 0, 1]}
    assert lines[1] == {"uid": "r", "prompt_ids": [1], "response_ids": [2], "loss_mask": [1]}
    assert (summary.samples, summary.tokens, summary.mask, summary.without_response) == (2, 8, "assistant_masks", 0)


def test_the_first_token_belongs_to_the_prompt_since_nothing_predicts_it(lines_of):
    lines, _ = lines_of([chat([5, 6, 7], [1, 1, 0]), chat([8], [1]), chat([9, 4], [0, 0])])
    assert lines == [{"prompt_ids": [5], "response_ids": [6, 7], "loss_mask": [1, 0]},
                     {"prompt_ids": [8], "response_ids": [], "loss_mask": []},
                     {"prompt_ids": [9, 4], "response_ids": [], "loss_mask": []}]


def test_labels_of_hugging_face_are_a_mask_and_must_be_the_tokens(lines_of):
    lines, summary = lines_of([{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}])
    assert lines == [{"prompt_ids": [5], "response_ids": [6, 7], "loss_mask": [1, 1]}] and summary.mask == "labels"
    assert lines_of([chat([5, 6], [0, 1], labels=[-100, 6])])[1].mask == "assistant_masks"
    assert "labels" not in lines_of([chat([5, 6], [0, 1], labels=[-100, 6])])[0][0]
    for wrong in ([-100, 7], [5, 6], [6, -100]):
        with pytest.raises(evenkeel.InputError, match="'labels': do not match input_ids and assistant_masks"):
            lines_of([chat([5, 6], [0, 1], labels=wrong)])


def test_pretraining_has_a_loss_for_every_token(lines_of):
    lines, _ = lines_of([{"input_ids": [5, 6, 7]}], mask="all")
    assert lines == [{"prompt_ids": [], "response_ids": [5, 6, 7]}]
    with pytest.raises(evenkeel.InputError, match="no column specifies which tokens carry loss.*or all"):
        lines_of([{"input_ids": [5, 6, 7]}])


def test_padding_is_removed_from_all_lists_of_the_same_width(lines_of):
    row = {"input_ids": np.array([0, 5, 6, 7, 0]), "attention_mask": np.array([0, 1, 1, 1, 0]),
           "loss_mask": [0, 0, 1, 1, 0], "entropy": np.array([9, 0.5, 0.25, 1, 9], np.float32), "advantages": [1.0, 2.0]}
    assert lines_of([row])[0] == [{"prompt_ids": [5], "response_ids": [6, 7], "loss_mask": [1, 1], "entropy": [0.25, 1.0],
                                   "advantages": [1.0, 2.0]}]


def test_values_of_tokens_move_with_the_mask_and_those_of_inputs_stay(lines_of):
    row = {"input_ids": [1, 2, 10, 11, 12], "completion_mask": [0, 0, 1, 0, 1], "old_log_probs": [0, 0, -.1, 0, -.12],
           "advantages": [0.5, 0.25, 0], "position_ids": [0, 1, 2, 3, 4], "ref_log_probs": [0.0, -.5, 0.0, -.6], "turn": [0, 0, 1, 2, 3]}
    lines, _ = lines_of([row], at={"ref_log_probs": "next"}, as_is=["turn"])
    assert lines == [{"prompt_ids": [1, 2], "response_ids": [10, 11, 12], "loss_mask": [1, 0, 1], "old_log_probs": [-.1, 0, -.12],
                      "advantages": [0.5, 0.25, 0], "position_ids": [0, 1, 2, 3, 4], "ref_log_probs": [-.5, 0.0, -.6],
                      "turn": [0, 0, 1, 2, 3]}]


def test_padded_columns_of_every_convention_lose_their_padding(lines_of):
    row = {"input_ids": [0, 1, 2, 3, 0], "attention_mask": [0.0, 1.0, 1.0, 1.0, 0.0], "loss_mask": [0, 0, 0, 1, 0],
           "shifted": [9.0, 9.0, 0.5, 9.0], "own": [9.0, 9.0, 9.0, 0.5, 9.0]}
    assert lines_of([row], at={"shifted": "next"})[0] == [
        {"prompt_ids": [1, 2], "response_ids": [3], "loss_mask": [1], "shifted": [0.5], "own": [0.5]}]


def test_the_convention_is_stated_if_all_tokens_are_response_tokens(lines_of):
    lines, summary = lines_of([{"input_ids": [5, 6, 7], "weights": [0.0, 1.0, 2.0]}], mask="all")
    assert lines == [{"prompt_ids": [], "response_ids": [5, 6, 7], "weights": [0.0, 1.0, 2.0]}]
    assert summary.read_as == {"weights": {"at": "response"}}


@pytest.mark.parametrize("at, mask, labels", [("token", [0, 0, 1, 1], [-100, -100, 3, 4]), ("next", [0, 1, 1, 0], [-100, 3, 4, -100]),
                                              ("next", [0, 1, 1], [-100, 3, 4]), ("response", [1, 1], [3, 4])])
def test_masks_and_labels_of_rollouts_follow_the_specified_convention(lines_of, at, mask, labels):
    row = {"prompt_ids": [1, 2], "response_ids": [3, 4], "loss_mask": mask, "labels": labels}
    assert lines_of([row], at={"loss_mask": at, "labels": at})[0] == [{**row, "loss_mask": [1, 1], "labels": [3, 4]}]


@pytest.mark.parametrize("columns, at, why", [
    ({"loss_mask": [0, 0, 1, 1]}, {}, "'loss_mask': has a value for each token.*at={'loss_mask': 'token'}"),
    ({"labels": [-100, -100, 3, 4]}, {}, "'labels': has a value for each token"),
    ({"loss_mask": [0, 0, 1, 1]}, {"loss_mask": "next"}, "'loss_mask': is set at the last row, 3.*at: token"),
    ({"loss_mask": [0, 1, 1, 0]}, {"loss_mask": "token"}, "'loss_mask': is set at token 1, which belongs to the prompt"),
    ({"labels": [1, 2, 3, 4]}, {"labels": "token"}, "'labels': is set at token 1"),
    ({"old": [1.0, 2.0]}, {"old": "token"}, "'old': has 2 values for 4 tokens"),
    ({"old": [1.0, 2.0]}, {"old": "tokens"}, "Use one of token, next, response"),
    ({"old": [1.0, 2.0]}, {"new": "token"}, "'new': does not exist"),
])
def test_columns_that_match_no_convention_are_refused(lines_of, columns, at, why):
    with pytest.raises(evenkeel.Error, match=why):
        lines_of([{"prompt_ids": [1, 2], "response_ids": [3, 4], **columns}], at=at)


@pytest.mark.parametrize("mask", [[1, 1, 1, 2, 2, 2, 0, 0], [0, 0, 0, 0, 0, 0, -10000, -10000], [0.5] * 8])
def test_attention_masks_have_only_0_and_1(lines_of, mask):
    with pytest.raises(evenkeel.InputError, match="'attention_mask': holds .*only 0 and 1"):
        lines_of([{"input_ids": list(range(8)), "attention_mask": mask}], mask="all")


def test_masks_may_be_real_numbers(lines_of):
    row = {"input_ids": [0, 5, 6, 7], "attention_mask": [0.0, 1.0, 1.0, 1.0], "loss_mask": np.array([0, 0, 1, 1], np.float32)}
    assert lines_of([row])[0] == [{"prompt_ids": [5], "response_ids": [6, 7], "loss_mask": [1, 1]}]


def test_rollouts_keep_their_fields_and_report_how_texts_and_bytes_are_read(lines_of):
    row = {"uid": 7, "prompt_ids": (1, 2), "response_ids": [3], "reward": 0.5, "done": True, "turn": [0, 0, 1], "weight": [2],
           "source": "math", "image": b"\0\xff", "boxes": [[1, 2], [3, 4], [5, 6], [7, 8]], "note": None}
    lines, summary = lines_of([row], drop=["note"], as_is=["boxes"])
    del row["note"]
    assert lines == [{**row, "prompt_ids": [1, 2], "image": "AP8="}]
    assert summary.read_as == {"source": {"read_as": "text"}, "image": {"read_as": "bytes"}}
    assert summary.columns[:3] == ["uid", "prompt_ids", "response_ids"] and summary.mask is None


def test_a_mask_cannot_be_combined_with_prompts(lines_of):
    row = {"prompt_ids": [1], "response_ids": [2, 3], "loss_mask": [1, 0]}
    assert lines_of([row])[0] == [row]
    with pytest.raises(evenkeel.InputError, match="Leave mask out"):
        lines_of([row], mask="loss_mask")


@pytest.mark.skipif("EVENKEEL_PROGRAM" not in os.environ, reason="needs the program")
def test_the_program_reads_the_converted_file(tmp_path):
    path = tmp_path / "out.jsonl"
    convert.to_jsonl([chat([5, 6, 7, 8], [0, 1, 0, 1], uid="q", reward=0.5), chat([1, 2, 3], [0, 1, 1], uid="q", reward=1.0)], path)
    summary = subprocess.run([os.environ["EVENKEEL_PROGRAM"], "inspect", path], capture_output=True, text=True, check=True).stdout
    assert "2 samples in 1 group" in summary
    rows = [line.split() for line in summary.splitlines()]
    assert ["loss_mask", "int64", "response_token"] in rows and ["reward", "float32", "sample"] in rows


def test_a_uid_may_be_missing_or_have_another_name(lines_of):
    rows = [{"prompt_ids": [1], "response_ids": [2], "prompt": uid} for uid in (None, "a", 3)]
    assert [line["uid"] for line in lines_of(rows, uid="prompt")[0]] == [None, "a", 3]
    for wrong in (1.5, True, [1]):
        with pytest.raises(evenkeel.InputError, match="row 0, column 'uid'"):
            lines_of([{"prompt_ids": [1], "response_ids": [2], "uid": wrong}])


class Tokenizer:
    """The attributes that the converter uses: one token per letter."""

    def apply_chat_template(self, chat, *, tokenize, return_dict, return_assistant_tokens_mask, tools=None, documents=None):
        assert tokenize and return_dict and return_assistant_tokens_mask
        if chat[0]["role"] == "assistant":
            raise ValueError("a user begins")
        if self.forgets:
            chat = [*({**turn, "content": ""} for turn in chat[:-1]), chat[-1]]
        given = [{"role": "tools", "content": tool["name"]} for tool in tools or []]
        given += [{"role": "documents", "content": document} for document in documents or []]
        chat = [*given, *chat]
        said = [(ord(letter), int(turn["role"] == "assistant" and self.marks)) for turn in chat for letter in turn["content"]]
        return {"input_ids": [token for token, _ in said], "attention_mask": [1] * len(said),
                "assistant_masks": [flag for _, flag in said]}

    marks = True
    forgets = False  # if set, leaves out all messages before the last one


TURNS = [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"},
         {"role": "assistant", "content": "ef"}]


def test_a_tokenizer_turns_chats_into_tokens_and_masks(lines_of):
    lines, _ = lines_of([{"messages": TURNS, "id": 4}], tokenizer=Tokenizer())
    assert lines == [{"prompt_ids": [97, 98], "response_ids": [99, 100, 101, 102], "loss_mask": [1, 0, 1, 1], "id": 4}]
    with pytest.raises(evenkeel.InputError, match="'messages': is a chat.*tokenizer"):
        lines_of([{"messages": TURNS}])
    silent = Tokenizer()
    silent.marks = False
    with pytest.raises(evenkeel.InputError, match="does not have a row with a token to train.*generation"):
        lines_of([{"messages": TURNS}], tokenizer=silent)


def flagged(*flags):
    return [{**turn, **flag} for turn, flag in zip(TURNS, flags)]


@pytest.mark.parametrize("flag", [{"weight": 0}, {"loss": False}, {"loss_scale": 0.0}, {"trainable": False}, {"train": False}])
def test_a_message_that_is_not_trained_carries_no_loss(lines_of, flag):
    def mask(*flags):
        return lines_of([{"messages": flagged(*flags)}], tokenizer=Tokenizer())[0][0]["loss_mask"]

    assert mask({}, {}, {}, flag) == [1, 0, 0, 0]
    assert lines_of([{"messages": flagged({}, flag, flag, {})}], tokenizer=Tokenizer())[0] == [
        {"prompt_ids": [97, 98, 99, 100], "response_ids": [101, 102], "loss_mask": [1, 1]}]
    missing = {name: None for name in flag}  # datasets add keys that only other messages have
    assert mask(missing, missing, missing, missing) == [1, 0, 1, 1]
    trained = {name: 1 for name in flag}
    assert mask({}, trained, {}, trained) == [1, 0, 1, 1]


@pytest.mark.parametrize("flags, message", [
    (({}, {"weight": 0.5}, {}, {}), "has weight 0.5 in message 1"),
    (({}, {"loss": "no"}, {}, {}), "has loss 'no' in message 1"),
    (({}, {"loss": True, "train": False}, {}, {}), "contradict each other"),
    (({"trainable": True}, {}, {}, {}), "message 0 .user. carries loss, but the chat template does not mark its tokens"),
])
def test_a_flag_of_a_message_that_cannot_be_honored_is_refused(lines_of, flags, message):
    with pytest.raises(evenkeel.InputError, match=f"row 0, column 'messages': .*{message}"):
        lines_of([{"messages": flagged(*flags)}], tokenizer=Tokenizer())


def test_a_message_without_loss_needs_a_template_that_keeps_the_beginning_of_a_chat(lines_of):
    tokenizer = Tokenizer()
    tokenizer.forgets = True
    with pytest.raises(evenkeel.InputError, match="changes earlier messages"):
        lines_of([{"messages": flagged({}, {"weight": 0}, {}, {})}], tokenizer=tokenizer)


def test_tools_and_documents_are_passed_to_the_template(lines_of):
    tools = [{"name": "xy"}]
    for column in (tools, json.dumps(tools)):
        lines, _ = lines_of([{"messages": TURNS, "tools": column, "documents": ["z"]}, {"messages": TURNS, "tools": None, "documents": None}],
                            tokenizer=Tokenizer())
        assert [line["prompt_ids"] for line in lines] == [[120, 121, 122, 97, 98], [97, 98]]
        assert "tools" not in lines[0]
    for wrong, message in (("no JSON", "is a string that is not JSON"), ({"name": "x"}, "is a dict; it must be a list")):
        with pytest.raises(evenkeel.InputError, match=f"column 'tools': {message}"):
            lines_of([{"messages": TURNS, "tools": wrong}], tokenizer=Tokenizer())
    with pytest.raises(evenkeel.InputError, match="column 'tools': contains a dict, which is not a supported type of field"):
        lines_of([chat([1, 2], [0, 1], tools=[{"a": 1}])])


def test_an_error_of_a_template_names_the_row(lines_of):
    with pytest.raises(evenkeel.InputError, match="row 1, column 'messages': .*ValueError: a user begins"):
        lines_of([{"messages": TURNS}, {"messages": TURNS[1:]}], tokenizer=Tokenizer())


def test_a_column_that_only_later_rows_have_can_be_dropped(lines_of):
    rows = [chat([1, 2], [0, 1]), chat([1, 2], [0, 1], x=None)]
    with pytest.raises(evenkeel.InputError, match="row 1, column 'x': is not in row 0.*drop this column"):
        lines_of(rows)
    assert len(lines_of(rows, drop=["x"])[0]) == 2


def test_lines_of_tokens_or_chats_are_rows(tmp_path, lines_of):
    path = tmp_path.parent / "rows.jsonl"
    path.write_text('\ufeff{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}\n\n{"input_ids": [8, 9], "labels": [-100, 9]}\n', encoding="utf-8")
    assert lines_of(path)[0] == [{"prompt_ids": [5], "response_ids": [6, 7], "loss_mask": [1, 1]},
                                 {"prompt_ids": [8], "response_ids": [9], "loss_mask": [1]}]
    path.write_text('{"input_ids": [5, 6], "labels": [-100, 6]}\n{"input_ids": NaN}\n')
    with pytest.raises(evenkeel.InputError, match="rows.jsonl:2: is not valid JSON: holds NaN"):
        lines_of(path)
    path.write_bytes(b'{"input_ids": [5, 6], "text": "\xff"}\n')
    with pytest.raises(evenkeel.InputError, match="rows.jsonl: is not UTF-8"):
        lines_of(path)


@pytest.mark.parametrize("row, message", [
    ({"prompt_ids": [1]}, "'response_ids': is missing"),
    ({"tokens": [1]}, "'input_ids': does not exist; the columns are tokens"),
    (chat([1, 2], [0, 1], uid=1.5), "column 'uid': is 1.5"),
    (chat([1, 2], [0]), "has 1 value for 2 tokens"),
    (chat([1, -2], [0, 1]), "'input_ids': holds -2"),
    (chat([1, 2.5], [0, 1]), "'input_ids': has 2.5 at position 1; each entry must be an integer"),
    (chat([1, 2], [0, 1], loss_mask=[0, 1]), "could each specify which tokens carry loss"),
    (chat([1, 2], [0, 1], odd=[1, 2, 3]), "column 'odd': has 3 values; the sample has 2 tokens, 1 of them in the response"),
    (chat([1, 2], [0, 1], words=["a", "b"]), "column 'words': is a list that contains strings"),
    (chat([1, 2], [0, 1], nothing=None), "column 'nothing': is None. Replace it"),
    (chat([1, 2], [0, 1], nested={"a": 1}), "column 'nested': is a dict"),
    (chat([1, 2], [0, 1], score=float("nan")), "column 'score': holds nan"),
    (chat([1, 2], [0, 1], note="a\ud83d"), "column 'note': has half of a surrogate pair"),
    (chat([1, 2], [0, 1], big=1 << 64), "column 'big': holds 18446744073709551616"),
    ([1, 2], "row 0: is a list"),
])
def test_values_that_a_line_cannot_represent_are_refused_by_name_and_nothing_is_written(tmp_path, row, message):
    with pytest.raises(evenkeel.InputError, match=message.replace("(", "\\(")):
        convert.to_jsonl([row], tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_rows_have_the_same_columns_and_names_are_those_of_columns(lines_of):
    with pytest.raises(evenkeel.InputError, match="row 1, column 'extra': is not in row 0"):
        lines_of([chat([1, 2], [0, 1]), chat([1, 2], [0, 1], extra=1)])
    with pytest.raises(evenkeel.InputError, match="column 'typo': does not exist; the columns are assistant_masks, input_ids"):
        lines_of([chat([1, 2], [0, 1])], drop=["typo"])
    with pytest.raises(evenkeel.InputError, match="has no rows"):
        lines_of([])


def test_columns_are_rows_and_parts_of_a_dataset_are_not(lines_of):
    columns = {"input_ids": [[1, 2], [3, 4, 5]], "assistant_masks": [[0, 1], [0, 0, 1]]}
    assert [line["response_ids"] for line in lines_of(columns)[0]] == [[2], [5]]
    with pytest.raises(evenkeel.InputError, match="column 'assistant_masks'.*1 row; another column has 2"):
        lines_of({**columns, "assistant_masks": [[0, 1]]})
    with pytest.raises(evenkeel.InputError, match=r"is a mapping of splits \(train, test\), not of columns"):
        lines_of({"train": [chat([1, 2], [0, 1])], "test": []})


def test_a_file_that_is_there_stays(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("kept")
    with pytest.raises(evenkeel.IoError, match="exists"):
        convert.to_jsonl([chat([1, 2], [0, 1])], path)
    with pytest.raises(evenkeel.InputError):
        convert.to_jsonl([chat([1], [0, 1])], path, overwrite=True)
    assert path.read_text() == "kept"
    with pytest.raises(evenkeel.IoError, match="cannot be written"):
        convert.to_jsonl([chat([1, 2], [0, 1])], tmp_path / "nowhere" / "out.jsonl")


def test_the_command_reports_missing_arguments(tmp_path, capsys):
    out = str(tmp_path / "out.jsonl")
    assert main([str(tmp_path / "*.parquet"), out]) == 1 and "names no file" in capsys.readouterr().err
    assert main([out]) == 2 and "the following arguments are required" in capsys.readouterr().err
    (tmp_path / "rows.npz").write_text("")
    assert main([str(tmp_path / "rows.npz"), out]) == 1
    assert "NumPy files become safetensors first" in capsys.readouterr().err


def test_numpy_files_become_safetensors_and_back(tmp_path, capsys):
    arrays = {
        "input_ids": np.arange(6, dtype=np.uint16), "offsets": np.array([0, 2, 6]), "flags": np.array([True, False]),
        "big_endian": np.array([1, 2], ">i4"), "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "half": np.array(1.5, np.float16), "nothing": np.zeros((0, 3), np.float32),
    }
    np.savez_compressed(tmp_path / "in.npz", **arrays, evenkeel_fields='{"flags": "sample"}', uid=np.array(["q1", "\u00e4", "q1"]))
    np.save(tmp_path / "extra.npy", np.array([[7]], np.int8))
    middle, back, again = (str(tmp_path / name) for name in ("out.safetensors", "back.npz", "again.safetensors"))
    assert main([str(tmp_path / "in.npz"), str(tmp_path / "extra.npy"), middle]) == 0
    assert f"{middle}: 10 tensors" in capsys.readouterr().out
    assert main([middle, back]) == 0 and main([back, again]) == 0
    with np.load(back) as read:
        assert str(read["evenkeel_fields"]) == '{"flags": "sample"}' and read["extra"].tolist() == [[7]]
        assert read["uid"].tobytes().decode() == "q1\u00e4q1" and read["uid_offsets"].tolist() == [0, 2, 4, 6]
        for name, array in arrays.items():
            assert read[name].shape == array.shape and read[name].dtype == array.dtype.newbyteorder("<"), name
            assert (read[name] == array).all(), name
    first, second = (json.loads(open(path, "rb").read()[8:].split(b"}}")[0] + b"}}") for path in (middle, again))
    assert {name: first[name]["shape"] for name in first if name[0] != "_"} == {
        name: second[name]["shape"] for name in second if name[0] != "_"}


def test_bfloat16_becomes_float32(tmp_path):
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\xc0\x3f\x80\xbf")
    convert.convert_tensors([str(tmp_path / "x.safetensors")], tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as read:
        assert read["x"].dtype == np.float32 and read["x"].tolist() == [1.5, -1.0]


@pytest.mark.parametrize("name, content, why", [
    ("a.npz", b"nothing", "is damaged"), ("a.npz", b"PK\3\4", "is damaged"), ("a.npy", b"", "is damaged"),
    ("a.safetensors", b"\2" + bytes(7) + b"[]", "its header is not a JSON object"),
    ("a.safetensors", b"\xff" * 8, "its header has"), ("a.safetensors", b"abc", "is damaged"),
    ("a.safetensors", b"\x3c" + bytes(7) + b'{"x": {"dtype": "I64", "shape": [2], "data_offsets": [0,8]}}' + bytes(8), "that its shape requires"),
])
def test_damaged_files_of_tensors_are_refused_by_name_and_nothing_is_written(tmp_path, capsys, name, content, why):
    (tmp_path / name).write_bytes(content)
    assert main([str(tmp_path / name), str(tmp_path / "out.safetensors")]) == 1
    said = capsys.readouterr().err
    assert name in said and why in said
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_tensors_that_no_file_holds_and_options_of_rows_are_refused(tmp_path, capsys):
    np.savez(tmp_path / "c.npz", x=np.array([1j]))
    np.savez(tmp_path / "o.npz", x=np.array([None, {}], dtype=object))
    out = str(tmp_path / "out.safetensors")
    for name, why in (("c.npz", "'x' of complex128"), ("o.npz", "has an array of Python objects")):
        assert main([str(tmp_path / name), out]) == 1 and why in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.array([1]))
    assert main([str(tmp_path / "x.npy"), str(tmp_path / "x.npy"), out]) == 1 and "another tensor already has this name" in capsys.readouterr().err
    assert main([str(tmp_path / "x.npy"), out, "--mask", "all"]) == 2 and "--mask: applies only to rows" in capsys.readouterr().err
    assert main([str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]) == 2 and "Write .npz" in capsys.readouterr().err
    assert main([str(tmp_path / "x.npy"), out]) == 0
    assert main([str(tmp_path / "x.npy"), out]) == 1 and "exists" in capsys.readouterr().err


def test_without_pyarrow_files_are_refused_with_an_install_hint(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "rows.parquet").write_bytes(b"")
    assert main([str(tmp_path / "rows.parquet"), str(tmp_path / "out.jsonl")]) == 1
    assert "pip install pyarrow" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]
