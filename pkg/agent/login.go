package agent

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/agent/container"
)

// loginScript starts a script as SkyPilot does: in an interactive shell after ~/.bashrc, so that what a set-up wrote
// there (a PATH, a conda environment) holds for the command. It is read by the shell of the machine or of the image.
// %[1]s is rcScript, %[2]s the script. bash says on standard error that there is no terminal before it reads its first
// line: that is kept from the log.
const loginScript = `if [ ! -e ~/sky_workdir ] || [ -L ~/sky_workdir ]; then
  ln -sfn "$PWD" ~/sky_workdir 2>/dev/null
fi
[ -x /bin/bash ] && exec /bin/bash --rcfile %[1]s -i %[2]s 9>&2 2>/dev/null
exec 9>&2
. %[1]s
. %[2]s
`

// rcScript is what comes before the script. An interactive bash ignores SIGTERM, which is how a task is told to end,
// expands ! in strings and keeps a history: none of it is of use without a person. Variables of the job's file count
// for more than ~/.bashrc: %[1]s keeps them and %[2]s puts them back.
const rcScript = `exec 2>&9 9>&-
if [ -n "$BASH_VERSION" ]; then set +Hm +o history; fi
trap 'exit 143' TERM
export PYTHONUNBUFFERED=1
%[1]s[ ! -f ~/.bashrc ] || . ~/.bashrc
if command -v conda >/dev/null 2>&1; then
  conda_base=$(conda info --base 2>/dev/null) && [ -f "$conda_base/etc/profile.d/conda.sh" ] &&
    . "$conda_base/etc/profile.d/conda.sh"
  unset conda_base
fi
%[2]s`

// ownHome says that the task's home is a folder of its own: on a machine that is shared, it would write to its user's.
func (t *attempt) ownHome() bool { return t.work.Login && !t.cfg.Sole && t.boxed == nil }

// login writes what starts a script after ~/.bashrc, and returns its path.
func (t *attempt) login(script string) (string, error) {
	var keep, restore strings.Builder
	given := slices.Concat(slices.Collect(maps.Keys(t.work.Env)), slices.Collect(maps.Keys(t.work.Secrets)))
	for i, name := range slices.Sorted(slices.Values(given)) {
		fmt.Fprintf(&keep, "given_%d=$%s\n", i, name)
		fmt.Fprintf(&restore, "export %[2]s=\"$given_%[1]d\"\nunset given_%[1]d\n", i, name)
	}
	rc, path := filepath.Join(t.dirs.scripts, "rc"), script+"-login"
	text := fmt.Sprintf(rcScript, keep.String(), restore.String())
	if err := os.WriteFile(rc, []byte(text), 0o600); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, fmt.Appendf(nil, loginScript, container.Quote(rc), container.Quote(script)), 0o600)
}
