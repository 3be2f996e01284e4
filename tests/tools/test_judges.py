"""What the comparison of client suites counts as a difference, and what the allow list may hold."""

import json
import re
from pathlib import Path

import pytest

from tools.judges import allowed, go, kafka_own, kafka_python, node_rdkafka
from tools.judges import page as judges_page
from tools.judges.__main__ import SUITES
from tools.judges.allowed import MAX_ENTRIES, Allowed, AllowListError
from tools.judges.comparison import Attempt, Count, Entry, Verdict, compare, unneeded
from tools.judges.librdkafka import result
from tools.judges.report import SHORT_S, STORED, SuiteReport, merged, short
from tools.judges.suite import ROOT, Outcome, one_line

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def attempts(entry: Entry, *outcomes: Outcome, test: str = "0113") -> list[Attempt]:
    return [
        Attempt("lib", test, entry, one, 1.0, f"run {number}" if one is FAILED else "")
        for number, one in enumerate(outcomes)
    ]


def verdict(straight: list[Outcome], through: list[Outcome], listed: tuple[Allowed, ...] = ()) -> Verdict:
    (row,) = compare([*attempts(Entry.STRAIGHT, *straight), *attempts(Entry.THROUGH, *through)], listed)
    return row.verdict


@pytest.mark.parametrize(
    ("straight", "through", "expected"),
    [
        ([PASSED] * 5, [PASSED] * 5, Verdict.SAME),
        ([PASSED] * 5, [*[PASSED] * 4, FAILED], Verdict.DIFFERS),
        ([*[PASSED] * 3, FAILED, FAILED], [*[PASSED] * 3, FAILED, FAILED], Verdict.SAME),
        ([*[PASSED] * 3, FAILED, FAILED], [PASSED] * 5, Verdict.SAME),
        ([PASSED] * 2, [PASSED, SKIPPED], Verdict.SAME),
        ([PASSED, FAILED], [FAILED, FAILED], Verdict.DIFFERS),
        ([FAILED, FAILED], [FAILED, FAILED], Verdict.NOT_COMPARED),
        ([PASSED], [SKIPPED], Verdict.NOT_COMPARED),
        ([PASSED], [], Verdict.NOT_COMPARED),
    ],
)
def test_a_test_differs_if_it_passes_less_often_through_epochgate(
    straight: list[Outcome], through: list[Outcome], expected: Verdict
) -> None:
    assert verdict(straight, through) is expected


def test_a_difference_on_the_allow_list_is_allowed_for_its_suite_only() -> None:
    assert verdict([PASSED], [FAILED], (Allowed("lib", "0113", "why", "where"),)) is Verdict.ALLOWED
    assert verdict([PASSED], [FAILED], (Allowed("other", "0113", "why", "where"),)) is Verdict.DIFFERS


def test_a_row_counts_runs_by_entry_and_names_each_failure_once() -> None:
    through = attempts(Entry.THROUGH, FAILED, PASSED, FAILED)
    (row,) = compare(
        [*attempts(Entry.STRAIGHT, PASSED), *through, *through, *attempts(Entry.NATIVE, SKIPPED, FAILED)], ()
    )
    assert (row.straight, row.through, row.native) == (Count(1, 1), Count(2, 6), Count(0, 1))
    assert row.reasons == ("run 0", "run 2")


def test_an_entry_of_the_list_whose_test_passes_is_unneeded() -> None:
    listed = (
        Allowed("lib", "a", "why", "where"),
        Allowed("lib", "b", "why", "where"),
        Allowed("lib", "c", "w", "w"),
    )
    ran = [
        *attempts(Entry.STRAIGHT, PASSED, test="a"),
        *attempts(Entry.THROUGH, PASSED, test="a"),
        *attempts(Entry.STRAIGHT, PASSED, test="b"),
        *attempts(Entry.THROUGH, FAILED, test="b"),
    ]
    assert unneeded(compare(ran, listed), listed) == [listed[0]]


def entries(count: int, **changed: str) -> str:
    one = {"suite": "lib", "reason": "why", "evidence": "where"}
    return json.dumps([{**one, "test": f"t{number}", **changed} for number in range(count)])


def test_the_allow_list_holds_at_most_twelve_entries() -> None:
    assert len(allowed.read(entries(MAX_ENTRIES))) == MAX_ENTRIES == 12
    with pytest.raises(AllowListError, match="13 entries, where 12 are allowed"):
        allowed.read(entries(13))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entries(1, evidence=""), "no reason or no evidence: t0"),
        (entries(2, test="same"), "named twice: lib same"),
        (entries(1, why="unknown"), "unknown field"),
        ("[", "did not find"),
    ],
)
def test_a_malformed_allow_list_is_refused(text: str, message: str) -> None:
    with pytest.raises(AllowListError, match=message):
        allowed.read(text)


def test_the_allow_list_of_the_repository_can_be_read_and_names_tests_that_are_run() -> None:
    jobs = {(suite.name, job) for suite in SUITES for job in suite.jobs()}
    for one in allowed.read(allowed.FILE.read_text()):
        parts = one.test.split("/")
        assert any((one.suite, "/".join(parts[:count])) in jobs for count in range(1, len(parts) + 1)), (
            one.test
        )


def report(test: str, state: str) -> str:
    return json.dumps({"tests": {"<MAIN>": {"state": "PASSED"}, test: {"state": state}}})


SAID = """\
[0113_x |  1.0s] \x1b[35m[ b_part:903: close consumer ]
[0113_x |  9.0s] \x1b[32m[ b_part:903: close consumer: PASS (8.00s) ]
\x1b[31m### Test "0113_x (c_part:1086)" failed at 0113-x.cpp:1090:c_part() at Sat Nov 28: ###
Expected rdkafkatest_rnd203e6db97f2601d6_0113_x [3] in the assignment\x1b[0m
[0113_x |  9.0s] the next line
"""


def test_librdkafkas_report_says_what_became_of_a_test_and_its_output_why() -> None:
    assert result("0113_x", report("0113_x", "PASSED"), SAID, 9.0).outcome is PASSED
    failed = result("0113_x", report("0113_x", "FAILED"), SAID, 9.0)
    assert (failed.outcome, failed.reason) == (
        FAILED,
        "0113-x.cpp:1090: Expected 0113_x [3] in the assignment",
    )
    assert result("0113_x", report("0113_x", "SKIPPED"), SAID, 9.0).outcome is SKIPPED


def test_a_part_that_never_ran_has_not_passed() -> None:
    assert result("0113_x/b_part", report("0113_x", "PASSED"), SAID, 9.0).outcome is PASSED
    assert result("0113_x/d_part", report("0113_x", "PASSED"), SAID, 9.0).outcome is SKIPPED


def test_a_runner_that_ends_without_a_report_has_failed() -> None:
    crashed = result("0113_x", "", "starting\nAssertion `x' failed.\n", 3.0)
    assert (crashed.outcome, crashed.reason) == (
        FAILED,
        "no report: Assertion `x' failed.",
    )


def stored(commit: str, *tests: Attempt) -> SuiteReport:
    return SuiteReport("lib", "lib 1.0", "4.4.0", commit, "2026-11-28", tests)


def test_a_newer_run_replaces_the_same_tests_only() -> None:
    older, other = (Attempt("lib", test, Entry.STRAIGHT, PASSED, 1.0) for test in ("a", "b"))
    again = Attempt("lib", "a", Entry.STRAIGHT, FAILED, 1.0)
    before = (stored("c1", older, other),)
    assert merged(before, stored("c1", again)) == (stored("c1", other, again),)
    assert merged(before, stored("c2", again)) == (stored("c1", other), stored("c2", again))
    assert merged((stored("c1", older),), stored("c2", again)) == (stored("c2", again),)


def test_the_short_form_runs_what_passed_quickly_in_all_stored_runs() -> None:
    reports = [
        stored(
            "c1",
            Attempt("lib", "quick/a", Entry.STRAIGHT, PASSED, SHORT_S),
            Attempt("lib", "quick/b", Entry.THROUGH, SKIPPED, SHORT_S + 1),
            Attempt("lib", "slow", Entry.STRAIGHT, PASSED, SHORT_S + 1),
            Attempt("lib", "failed", Entry.THROUGH, FAILED, 1.0),
        )
    ]
    jobs = ("quick", "slow", "failed", "new")
    assert short(jobs, reports, "lib") == ["quick"]
    assert short(jobs, reports, "other") == []


def test_results_of_another_version_of_the_suite_go() -> None:
    older = Attempt("lib", "a", Entry.STRAIGHT, PASSED, 1.0)
    newer = SuiteReport("lib", "lib 2.0", "4.4.0", "c1", "2026-11-28", ())
    assert merged((stored("c1", older),), newer) == (newer,)


GO = """\
=== RUN   TestGroupETL
    group_test.go:80: created a topic
=== RUN   TestGroupETL/range
=== RUN   TestGroupETL/sticky/848
    group_test.go:110: created a topic
    consumer.go:7: joined the group
    group_test.go:120: never got the records
    consumer.go:9: left the group
=== NAME  TestGroupETL
    group_test.go:90: deleted a topic
    --- PASS: TestGroupETL/range (3.10s)
    --- FAIL: TestGroupETL/sticky/848 (4.00s)
--- FAIL: TestGroupETL (7.10s)
--- SKIP: TestOther (0.00s)
"""


def test_go_tests_are_listed_by_their_innermost_subtests() -> None:
    assert [(one.test, one.outcome, one.reason) for one in go.results("TestGroupETL", GO)] == [
        ("TestGroupETL/range", PASSED, ""),
        ("TestGroupETL/sticky/848", FAILED, "group_test.go:120: never got the records"),
        ("TestOther", SKIPPED, ""),
    ]
    assert go.results("TestGroupETL", "panic: x")[0].outcome is FAILED


def test_a_failed_check_of_testify_is_the_reason_with_its_error() -> None:
    printed = "    x_test.go:12: \n        \tError:      \tNot equal\n--- FAIL: TestX (1.00s)\n"
    (one,) = go.results("TestX", printed)
    assert (one.outcome, one.reason) == (FAILED, "x_test.go:12: Error: Not equal")


JUNIT = """<testsuites><testsuite><testcase name="test_a" time="1.5"/><testcase name="test_b" time="2">
<failure message="AssertionError: 1&#10;more"/></testcase><testcase name="test_c" time="0"><skipped/></testcase>
</testsuite></testsuites>"""


def test_pytests_report_names_the_tests_of_a_file() -> None:
    assert [(one.test, one.outcome, one.reason) for one in kafka_python.results("file", JUNIT, "")] == [
        ("file/test_a", PASSED, ""),
        ("file/test_b", FAILED, "AssertionError: 1 more"),
        ("file/test_c", SKIPPED, ""),
    ]
    assert kafka_python.results("file", "", "Killed")[0].reason == "no report: Killed"


OF_KAFKA = """\
passed\t1001.5\ttestA(String).groupProtocol=classic\t
failed\t2.0\ttestA(String, String).groupProtocol=classic.assignor=x\texpected: 1 but was: 2
skipped\t0.0\ttestB()\t
"""


def test_the_extension_of_kafkas_tests_names_method_and_parameters() -> None:
    assert [
        (one.test, one.outcome, one.seconds, one.reason) for one in kafka_own.results("Bounce", OF_KAFKA, "")
    ] == [
        ("Bounce/testA groupProtocol=classic", PASSED, 1001.5, ""),
        ("Bounce/testA groupProtocol=classic.assignor=x", FAILED, 2.0, "expected: 1 but was: 2"),
        ("Bounce/testB", SKIPPED, 0.0, ""),
    ]
    assert kafka_own.results("Bounce", "", "Killed")[0].reason == "no report: Killed"


def test_a_test_of_kafka_whose_broker_got_no_port_is_none_that_failed() -> None:
    words = "Received a fatal error while waiting for all of the SocketServer Acceptors to be started."
    (one,) = kafka_own.results("Bounce", f"failed\t3.0\ttestClose(String)\t{words}\n", "")
    assert one.outcome is SKIPPED


MOCHA = """{"passes": [{"fullTitle": "Consumer a", "duration": 1500, "err": {}}], "pending": [],
"failures": [{"fullTitle": "Consumer b", "err": {"message": "Timeout\\nof 60 s"}}]}"""


def test_mochas_report_names_the_tests_of_a_file() -> None:
    assert [(one.test, one.outcome, one.reason) for one in node_rdkafka.results("file", MOCHA, "")] == [
        ("file/Consumer a", PASSED, ""),
        ("file/Consumer b", FAILED, "Timeout of 60 s"),
    ]
    assert node_rdkafka.results("file", "", "Aborted")[0].outcome is FAILED


def test_each_test_of_a_mocha_file_runs_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    titles = ["Consumer a", "Consumer a: (again)"]
    ran = []

    def mocha(command: list[str | Path], folder: Path, timeout_s: float, **environment: str) -> str:
        *_, report, option, file = map(str, command)
        assert (file, environment) == (str(tmp_path / "e2e" / "both.spec.js"), {"KAFKA_HOST": "host:1"})
        if option != "--dry-run":
            (matching,) = (one for one in titles if re.search(option.removeprefix("--grep="), one))
            ran.append((matching, timeout_s))
        passes = [{"fullTitle": one} for one in (titles if option == "--dry-run" else [matching])]
        written = {"passes": passes, "pending": [], "failures": []}
        Path(report.removeprefix("--reporter-option=output=")).write_text(json.dumps(written))
        assert folder.is_dir()
        return ""

    monkeypatch.setattr(node_rdkafka, "output", mocha)
    monkeypatch.setattr(node_rdkafka, "_source", lambda: tmp_path)
    found = node_rdkafka.NodeRdkafka().run("both", "host:1", "classic", tmp_path)
    assert [one.test for one in found] == [f"both/{one}" for one in titles]
    assert ran == [(one, node_rdkafka.TIMEOUT_S) for one in titles]


def test_a_reason_is_one_line_without_a_path_of_this_machine() -> None:
    assert one_line(f"Timeout\n  ({ROOT}/build/judges/a.js)") == "Timeout (build/judges/a.js)"
    assert len(one_line("long " * 100)) <= 200
    recorded = STORED.read_text(encoding="utf-8")
    assert re.findall(r"/[\w/]+/build/judges", recorded) == []


def test_the_page_shows_what_differs_and_not_what_is_the_same() -> None:
    reports = [
        stored(
            "c1",
            *attempts(Entry.STRAIGHT, PASSED, test="differs"),
            *attempts(Entry.THROUGH, FAILED, test="differs"),
            *attempts(Entry.STRAIGHT, PASSED, test="same"),
            *attempts(Entry.THROUGH, PASSED, test="same"),
        )
    ]
    page = judges_page.written(reports, ())
    assert "| lib | lib 1.0 | 4.4.0 | c1 | 2026-11-28 | 1 | 0 | 1 | 0 |" in page
    assert "| lib | `differs` | 1 of 1 | 0 of 1 |  | differs | run 0 |" in page
    assert "`same`" not in page


def test_the_page_has_a_row_for_a_suite_whose_parts_ran_at_two_commits() -> None:
    tests = [attempts(entry, PASSED, test=test) for test in "ab" for entry in (Entry.STRAIGHT, Entry.THROUGH)]
    page = judges_page.written([stored("c1", *tests[0], *tests[1]), stored("c2", *tests[2], *tests[3])], ())
    assert "| lib | lib 1.0 | 4.4.0 | c1, c2 | 2026-11-28 | 2 | 0 | 0 | 0 |" in page
