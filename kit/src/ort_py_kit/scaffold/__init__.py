"""New plug-in packages: names made of one word, and files made of templates.

Its only user is `cli.new`. It does not depend on sessions: what it writes is text.

| module | what it does |
|---|---|
| `names` | every name of a package from the one that was given, or why there can be none |
| `packages` | which files a kind of package has, filled in and written |
| `templates` | the files, ``string.Template`` texts: a folder for each kind, and what all kinds share |
"""

from ort_py_kit.scaffold.names import PackageNames, package_names
from ort_py_kit.scaffold.packages import KINDS, LICENSES, package_files, write_package

__all__ = ["KINDS", "LICENSES", "PackageNames", "package_files", "package_names", "write_package"]
