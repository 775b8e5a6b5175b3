"""Grade a folder of submissions: read, match, run in a sandbox, report.

Everything here but the package `box` runs outside of the sandbox and never executes
what a learner wrote.
"""
