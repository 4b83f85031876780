"""The tests on every supported version of Python that is installed (`make versions`); absent ones are skipped."""

import nox

nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "venv"


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Install what is locked, then run the tests except the slow ones; arguments go to pytest."""
    session.install("--quiet", "--require-hashes", "-r", "requirements.lock")
    session.install("--quiet", "--no-deps", "--no-build-isolation", "-e", ".")
    session.run("pytest", "-m", "not full", *session.posargs)
