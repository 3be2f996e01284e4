from proxy.demo.records import ReadRecords, ranges


def test_what_was_read_again_is_counted_apart():
    records = ReadRecords()
    records.read([0, 1, 2])
    records.read([2, 3])
    assert (records.distinct, records.duplicates) == (4, 1)


def test_what_nobody_has_read_is_missing():
    records = ReadRecords()
    records.read([0, 2])
    assert records.missing(5) == [1, 3, 4]


def test_numbers_in_a_row_are_told_as_ranges():
    assert ranges([9, 0, 1, 2, 7]) == "0-2, 7, 9"
    assert ranges([]) == ""
