"""Answers of the format `tagged`: VPO's `<response_i>` blocks around fields in tags."""

from vpo.chain import instructions, parse

A, B = "<think>x</think>\n<response>hi</response>", "<support>1, 2</support>\n<answer>Rome</answer>"


def read(text, answers=2, truncated=False):
    return parse(text, "tagged", answers, truncated=truncated)


def test_fields_stay_as_they_are_inside_numbered_responses():
    chain = read(f"<response_1>\n{A}\n</response_1>\n<response_2>{B}</response_2>")
    assert chain.answers == (A, B) and chain.error is None


def test_a_single_answer_is_the_whole_text_or_its_numbered_block():
    assert read(A, 1).answers == (A,)
    assert read(f"Here: <response_1>{B}</response_1>", 1).answers == (B,)
    assert read(B + "\n<answer>cut he", 1, truncated=True).answers == (B + "\n<answer>cut he",)


def test_the_first_of_a_number_counts_and_numbers_beyond_m_do_not():
    text = "".join(f"<response_{n}>{word}</response_{n}>" for n, word in [(2, "b"), (2, "c"), (3, "d"), (1, "a")])
    assert read(text).answers == ("b", "a")


def test_what_is_missing_is_named():
    assert read("<response_1>a</response_1>").error == "1 of 2 answers found: it wrote no more"
    assert read("nothing").error == "no <response_1> tag"
    assert "1 repeated" in read("<response_1>a</response_1><response_2>a</response_2>").error
    assert read("<response_1>...</response_1><response_2>b</response_2>").answers == ("b",)


def test_an_unclosed_response_ends_at_the_next_one_and_is_left_out_where_the_limit_cut_it():
    text = "<response_1>a\n<response_2>b"
    assert read(text).answers == ("a", "b")
    assert read(text, truncated=True).answers == ("a",)
    assert "unclosed <response_2>" in read(text, truncated=True).error


def test_a_thought_before_the_responses_is_no_response():
    drafts = "<think>maybe <response_1>draft</response_1></think>"
    assert read(f"{drafts}<response_1>a</response_1><response_2>b</response_2>").answers == ("a", "b")
    assert read(f"<response_1>{A}</response_1><response_2>{B}</response_2>").answers == (A, B)


def test_a_thought_that_the_template_opened_is_opened_again():
    assert read("so</think>\n<response>hi</response>", 1).answers == ("<think>so</think>\n<response>hi</response>",)


def test_the_request_names_the_tags():
    assert "<response_1>" not in instructions("tagged", 1) and "its tags included" in instructions("tagged", 1)
    assert "<response_3> and </response_3>" in instructions("tagged", 3)
