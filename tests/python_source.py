"""Parsing that the garbage collector does not disturb."""

import ast
import functools
import gc
import sys


def hold_the_collector_while_parsing():
    """Mend `ast.parse` of Python 3.11 before 3.11.8, for everything in this process; pytest parses too.

    It fails ("AST constructor recursion depth mismatch") if the garbage collector runs in the middle and what
    it ends formats a traceback, which parses as well (CPython issue 106905).
    """
    if (3, 11) <= sys.version_info < (3, 11, 8) and not hasattr(ast.parse, "__wrapped__"):
        parse = ast.parse

        @functools.wraps(parse)
        def held(*arguments, **options):
            collects = gc.isenabled()
            gc.disable()
            try:
                return parse(*arguments, **options)
            finally:
                if collects:
                    gc.enable()

        ast.parse = held
