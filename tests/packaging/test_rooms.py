"""How many rooms translation/ and proxy/ have, how many arrows lead between them, and that no circle does.

A room is a folder or a module right below the package; an arrow leads from a room to another that it imports.
"""

import grimp
import pytest

MOST = {"translation": (21, 118), "proxy": (23, 103)}
"""Rooms and arrows as they are: fewer is better, and a new one takes the place of another."""


def arrows_of(package: str) -> tuple[set[str], set[tuple[str, str]]]:
    graph = grimp.build_graph(package, cache_dir=None)

    def room(module: str) -> str:
        return ".".join(module.split(".")[:2])

    rooms = {room(module) for module in graph.modules if module != package}
    arrows = {
        (room(module), room(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if package not in (module, imported) and room(module) != room(imported)
    }
    return rooms, arrows


@pytest.mark.parametrize("package", MOST)
def test_rooms_and_arrows_do_not_become_more(package: str) -> None:
    rooms, arrows = arrows_of(package)
    most_rooms, most_arrows = MOST[package]
    assert len(rooms) <= most_rooms
    assert len(arrows) <= most_arrows


@pytest.mark.parametrize("package", MOST)
def test_no_arrows_lead_in_a_circle(package: str) -> None:
    rooms, arrows = arrows_of(package)
    while ends := {room for room in rooms if not any(start == room for start, _ in arrows)}:
        rooms -= ends
        arrows = {(start, end) for start, end in arrows if end not in ends}
    assert rooms == set()
