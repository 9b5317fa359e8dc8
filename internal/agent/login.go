package agent

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
)

// loginScript starts a script like SkyPilot: in an interactive shell after ~/.bashrc, so that changes of ~/.bashrc by
// the setup (a PATH, a conda environment) also apply to the command. The shell of the machine or of the image reads
// it. %[1]s is rcScript, %[2]s the script. Before bash reads its first line, it complains on standard error that
// there is no terminal; the log omits that message.
const loginScript = `if [ ! -e ~/sky_workdir ] || [ -L ~/sky_workdir ]; then
  ln -sfn "$PWD" ~/sky_workdir 2>/dev/null
fi
[ -x /bin/bash ] && exec /bin/bash --rcfile %[1]s -i %[2]s 9>&2 2>/dev/null
exec 9>&2
. %[1]s
. %[2]s
`

// rcScript runs before the script. An interactive bash ignores SIGTERM, which the agent sends to end a task, expands
// ! in strings and keeps a history. A task needs none of this, so rcScript turns it off. Variables from the job's
// file override those from ~/.bashrc: %[1]s saves them and %[2]s restores them.
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

// ownHome reports whether the task gets a separate home directory. It does on a shared machine. There the task would
// otherwise write to its user's home directory, and an isolated task may not enter root's.
func (t *attempt) ownHome() bool {
	return t.work.Login && !t.cfg.Sole && t.boxed == nil || t.isolates()
}

// login writes the file that runs a script after ~/.bashrc, and returns its path.
func (t *attempt) login(script string) (string, error) {
	var keep, restore strings.Builder
	given := slices.Concat(slices.Collect(maps.Keys(t.work.Env)), slices.Collect(maps.Keys(t.work.Secrets)))
	for i, name := range slices.Sorted(slices.Values(given)) {
		fmt.Fprintf(&keep, "given_%d=$%s\n", i, name)
		fmt.Fprintf(&restore, "export %[2]s=\"$given_%[1]d\"\nunset given_%[1]d\n", i, name)
	}
	rc, path := filepath.Join(t.dirs.scripts, "rc"), script+"-login"
	text := fmt.Sprintf(rcScript, keep.String(), restore.String())
	if err := os.WriteFile(rc, []byte(text), readable); err != nil { //nolint:gosec // see readable
		return "", err
	}
	text = fmt.Sprintf(loginScript, container.Quote(rc), container.Quote(script))
	return path, os.WriteFile(path, []byte(text), readable) //nolint:gosec // see readable
}
