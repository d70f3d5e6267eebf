"""evenkeel.drop_in.roll with ``strict_reference=True`` as the default."""

from evenkeel.drop_in import roll as _ours
from evenkeel.drop_in.strict import strictly

globals().update(strictly(_ours, "_get_pad_factor", "_pack_sequences", "_unpack_sequences"))
__all__ = list(_ours.__all__)
