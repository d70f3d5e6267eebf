"""evenkeel.drop_in.mindspeed_rl with ``strict_reference=True`` as the default."""

from evenkeel.drop_in import mindspeed_rl as _ours
from evenkeel.drop_in.strict import strictly

globals().update(strictly(_ours))
__all__ = list(_ours.__all__)
