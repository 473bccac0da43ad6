"""What dask itself expects of every `get`, asked of ours."""

from __future__ import annotations

from dask.utils_test import GetFunctionTestMixin

import hetsched


class TestGet(GetFunctionTestMixin):
    get = staticmethod(hetsched.get)
