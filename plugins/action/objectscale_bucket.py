# SPDX-License-Identifier: Apache-2.0
"""Action behind kvlab.lab.objectscale_bucket: runs the module, then follows the array's task that empties a bucket."""

from __future__ import annotations

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale

FOLLOW_SPEC = {
    **objectscale.ACCESS_SPEC,
    "name": {"type": "str"},
    "namespace": {"type": "str"},
    "empty_timeout": {"type": "int", "default": 3600},
}


class ActionModule(ActionBase):
    """Wait in the controller's own process, so that a person sees how far the array is."""

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        result = self._execute_module(module_args=self._task.args, task_vars=task_vars)
        if result.get("failed") or not result.get("emptying"):
            return result
        # The module has imported the package, or has failed.
        from kvlab.errors import KvlabError
        from kvlab.objectscale import removal
        from kvlab.objectscale.buckets import Bucket

        given = {name: value for name, value in self._task.args.items() if name in FOLLOW_SPEC}
        wanted = ArgumentSpecValidator(FOLLOW_SPEC).validate(given).validated_parameters
        try:
            with objectscale.client(wanted) as api:
                bucket = Bucket(wanted["name"], wanted["namespace"])
                removal.follow(api, bucket, self._tell, wanted["empty_timeout"])
        except KvlabError as error:
            result.update(failed=True, msg=str(error))
        return result

    def _tell(self, line):
        self._display.display(f"  {line}")
