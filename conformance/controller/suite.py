"""The chart of the controller on a real cluster: installed by real Helm beside kro's definitions, with every admission policy
enforced; promotions as the accounts it creates, through a real Gitea; uninstalled without losing data.

Called as `world` says; writes verdicts.json into the directory.
"""

import json
import sys
import time

from chart import helm_installs, kro_is_there, policies_hold, roles_hold, uninstalling_keeps_data
from promotions import accounts_promote
from world import DIRECTORY, expect, verdicts


def main():
    (DIRECTORY / "home").mkdir()
    for scenario in (kro_is_there, helm_installs, policies_hold, roles_hold, accounts_promote, uninstalling_keeps_data):
        began = time.monotonic()
        try:
            scenario()
        except Exception as error:  # A scenario that breaks is a verdict, not the end of the others.
            expect(f"{scenario.__name__} plays to its end", "", f"{type(error).__name__}: {error}")
        print(f"  {scenario.__name__}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    (DIRECTORY / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


main()
