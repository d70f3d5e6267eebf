"""The site's navigation: what navigation.yml says, compared with the pages that are there."""


class NavigationError(Exception):
    """Pages that the navigation does not have, or the other way round."""


def of_pages(entries: list, awaited: list[str], known: set[str], made: dict[str, list]) -> list:
    """The entries that have pages. `known` are the pages of the repository, each of which must have an entry; `made` are
    entries to put in the place of a name; `awaited` are pages that may be missing, which is told."""
    named: list[str] = []

    def there(entry: dict) -> dict | None:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            return {title: [found for part in target if (found := there(part))]}
        if target in made:
            return {title: made[target]}
        named.append(target)
        if target not in known and target in awaited:
            print(f"navigation: {target} is awaited, and is not there yet")
            return None
        return entry

    found = [part for entry in entries if (part := there(entry))]
    lost = sorted(known - set(named))
    if lost:
        raise NavigationError(f"docs/site/navigation.yml does not name {', '.join(lost)}: add it where readers will look")
    missing = sorted(set(named) - known - set(awaited))
    if missing:
        raise NavigationError(f"docs/site/navigation.yml names {', '.join(missing)}, which is not there")
    return found
