"""What can go wrong with the local services.

    ServiceError                 what happened, the last log lines, what to do next
    ├── MissingProgramError      something has to be installed first
    ├── ServiceStartError        a process ended, or never answered in time
    │   └── PortTakenError       somebody else has its port: another port and another try help
    ├── StackBusyError           another command holds the directory's lock
    └── StackMismatchError       the directory holds something else than was asked for

Owns: the errors and their wording. Never: catches or prints them.
"""

from __future__ import annotations


class ServiceError(Exception):
    """A local service could not do what was asked."""

    def __init__(self, what: str, *, remedy: str, log_tail: str = "") -> None:
        """`what` happened, what to do next, and the last lines of the service's log if there are any."""
        self.what = what
        self.remedy = remedy
        self.log_tail = log_tail
        super().__init__(what)

    def __str__(self) -> str:
        """The three parts as a person reads them."""
        log = f"\nlast lines of its log:\n{self.log_tail.rstrip()}" if self.log_tail else ""
        return f"{self.what}{log}\nwhat to do: {self.remedy}"


class MissingProgramError(ServiceError):
    """A program the service needs is not on this machine."""


class ServiceStartError(ServiceError):
    """The process ended by itself or did not answer before its deadline."""


class PortTakenError(ServiceStartError):
    """The port was free when it was chosen and taken when the service opened it."""


class StackBusyError(ServiceError):
    """Another command is at work in the same directory."""


class StackMismatchError(ServiceError):
    """The directory was made for other settings."""
