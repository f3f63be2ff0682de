"""Tables of other programs that are not what they seem, for error_cases.py: what a reader of `perigee data` or of pg.data.table meets."""
import sqlite3
import struct
import zipfile

from error_forms import command

BOOK = """<workbook xmlns="m" xmlns:r="r"><sheets><sheet name="first" sheetId="1" r:id="rId1"/></sheets></workbook>"""
RELATIONS = """<Relationships><Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>"""
# the cells of a sheet's second row, cause
CELLS = {
    "name": ('<c r="7"><v>1</v></c>', "a cell's name is none: '7'"),
    "order": ('<c r="B2"><v>1</v></c><c r="A2"><v>1</v></c>', "the cells of a row do not ascend at 'A2'"),
    "open": ('<c r="A2"><v>1</v>', "a cell does not end"),
    "text": ('<c r="A2" t="s"><v>7</v></c>', "a cell has a text that the workbook lacks: '7'"),
    "date": ('<c r="A2" t="d"><v>noon</v></c>', "a cell's date is none: 'noon'"),
    "number": ('<c r="A2"><v>1,5</v></c>', "a cell's number is none: '1,5'"),
}


def write_workbook(path, cells, end="</row></sheetData>", files=None):
    row = '<row r="1"><c r="A1" t="str"><v>a</v></c><c r="B1" t="str"><v>b</v></c></row>'
    parts = {"xl/workbook.xml": BOOK, "xl/_rels/workbook.xml.rels": RELATIONS,
             "xl/worksheets/sheet1.xml": f'<worksheet><sheetData>{row}<row r="2">{cells}{end}</worksheet>'}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, text in (parts | (files or {})).items():
            book.writestr(name, text)


def write_databases(folder):
    """Databases with a view, a computed column, and a log that was not written back."""
    for name, commands in {
            "view.sqlite": ("CREATE TABLE t(a, b)", "INSERT INTO t VALUES (1, 2)", "CREATE VIEW v AS SELECT a FROM t"),
            "computed.sqlite": ("CREATE TABLE t(a INTEGER, b INTEGER AS (a + 1))", "INSERT INTO t(a) VALUES (1)"),
            "open.sqlite": ("CREATE TABLE t(a, b)", "INSERT INTO t VALUES (1, 2)")}.items():
        database = sqlite3.connect(folder / name)
        for each in commands:
            database.execute(each)
        database.commit()
        database.close()
    (folder / "open.sqlite-wal").write_bytes(b"rows that are not in the file yet")


def write_tables(folder):
    write_databases(folder)
    for name, (cells, _) in CELLS.items():
        write_workbook(folder / f"{name}.xlsx", cells)
    write_workbook(folder / "row.xlsx", '<c r="A2"><v>1</v></c>', end="")
    write_workbook(folder / "wide.xlsx", '<c r="XFD2"><v>1</v></c><c><v>1</v></c>')
    write_workbook(folder / "large.xlsx", '<c r="A2"><v>1</v></c>', files={"xl/sharedStrings.xml": "<sst>" + " " * (80 << 20) + "</sst>"})
    (folder / "series.ts").write_text("@problemName x\n@timeStamps false\n@classLabel true a b\n@data\n1\n")
    # A series of numbers beside one of lists of texts: arrays of two lengths.
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }"
    with zipfile.ZipFile(folder / "rows.npz", "w") as arrays:
        for name, count in (("a", 2), ("b", 3)):
            text = (header % count).ljust(117) + "\n"
            arrays.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(8 * count))


# a file, place, cause, hint
FILES = [
    ("view.sqlite#v", "view.sqlite", "'v' is a view, which is not in the file", "CREATE TABLE copy AS SELECT * FROM view"),
    ("computed.sqlite", "table 't'", "the column 'b' is computed by the database, and is not in its file", "CREATE TABLE copy AS SELECT * FROM"),
    ("open.sqlite", "open.sqlite", "a part of the database is in the file 'open.sqlite-wal'", "PRAGMA wal_checkpoint(TRUNCATE)"),
    ("row.xlsx", "sheet: character", "a row does not end", "save it as CSV"),
    ("wide.xlsx", "sheet: character", "a row has too many cells", "save it as CSV"),
    ("large.xlsx", "xl/sharedStrings.xml", "the workbook is much larger than its file", "save it as CSV"),
    ("series.ts", "series.ts:5", "a series has no dimension, or too many", ""),
    ("rows.npz", "rows.npz", "rows", "FILE#NAME chooses an array"),
]

CASES = [command(f"a table: {cause}", ("data", "analyse", file), place, cause, hint) for file, place, cause, hint in FILES]
CASES += [command(f"a workbook: {cause}", ("data", "analyse", f"{name}.xlsx"), f"{name}.xlsx: sheet: character", cause,
                  "save the workbook again, or save it as CSV") for name, (_, cause) in CELLS.items()]
