"""The site's navigation: what navigation.yml says, compared with the pages that are there."""


class NavigationError(Exception):
    """Pages that the navigation does not have, or the other way round."""


def of_pages(entries: list, known: set[str], made: dict[str, list]) -> list:
    """The entries as mkdocs wants them. `known` are the pages of the repository, each of which must have an entry; `made` are
    entries to put in the place of a name."""
    named: list[str] = []

    def filled_in(entry: dict) -> dict:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            return {title: [filled_in(part) for part in target]}
        if target in made:
            return {title: made[target]}
        named.append(target)
        return entry

    found = [filled_in(entry) for entry in entries]
    lost = sorted(known - set(named))
    if lost:
        raise NavigationError(f"docs/site/navigation.yml does not name {', '.join(lost)}: add it where readers will look")
    missing = sorted(set(named) - known)
    if missing:
        raise NavigationError(f"docs/site/navigation.yml names {', '.join(missing)}, which is not there")
    return found
