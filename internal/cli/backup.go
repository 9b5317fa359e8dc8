package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/host/backup"
)

// Backup is the output of `backup -o json` and `restore -o json`.
type Backup struct {
	backup.Report
	File  string `json:"file"`
	State string `json:"state"`
}

func (a *app) backupCommand() *cobra.Command {
	var state string
	var force bool
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the broker's state into a file, also while it runs",
		Long: "Copies the state of a broker that runs on this computer into a gzipped tar archive: its records as of\n" +
			"one moment, logs, outputs, checkpoints and uploaded files. The archive contains the key that decrypts\n" +
			"the secrets of jobs, so its mode is 0600. It does not contain the user's token and credentials of\n" +
			"clouds.",
		Example: "  tradewind backup state.tar.gz\n  tradewind backup nightly.tar.gz --force",
		Args:    command.Args(1, 1),
	}
	a.StateFlag(c, &state)
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		from := absolute(state)
		r, err := backup.Make(ctx, from, given[0], a.Version, force)
		switch {
		case errors.Is(err, backup.ErrExists):
			return command.Because(err, command.ExitBadInput, "--force replaces it", "%s exists", given[0])
		case errors.Is(err, backup.ErrNoState):
			return command.Because(err, command.ExitBadInput, "--state names another folder",
				"no broker has used %s yet", from)
		case err != nil:
			return fmt.Errorf("backup of %s: %w", from, err)
		case output.JSON():
			return a.PrintJSON(Backup{Report: r, File: given[0], State: from})
		}
		return a.Printf("copied %s of %s, %s, into %s\n", text.Count(r.Files, "file"), from, text.Bytes(r.Bytes),
			given[0])
	}
	return c
}

func (a *app) restoreCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a state folder from a backup",
		Long: "Checks a backup and writes its content into a new or empty state folder (--state). First stop the\n" +
			"broker of the folder from which the backup was made; tasks that it left running on this computer are\n" +
			"ended. The next broker on the new folder continues each unfinished job from its last checkpoint in the\n" +
			"backup.",
		Example: "  tradewind restore state.tar.gz --state /srv/tradewind\n  tradewind up --state /srv/tradewind",
		Args:    command.Args(1, 1),
	}
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		to := absolute(state)
		r, err := backup.Restore(ctx, given[0], to)
		switch {
		case errors.Is(err, backup.ErrExists):
			return command.Because(err, command.ExitBadInput, "--state names another folder, which may not exist yet",
				"%s is not empty", to)
		case errors.Is(err, backup.ErrRuns), errors.Is(err, host.ErrLocked):
			return command.Because(err, command.ExitFailed, "stop it first, then restore", "%v", err)
		case errors.Is(err, backup.ErrDamaged):
			return command.Because(err, command.ExitBadInput, "", "%s: %v", given[0], err)
		case err != nil:
			return fmt.Errorf("restore %s: %w", given[0], err)
		case output.JSON():
			return a.PrintJSON(Backup{Report: r, File: given[0], State: to})
		}
		ended := ""
		if r.Ended > 0 {
			ended = "; ended " + text.Count(r.Ended, "machine") + " of " + r.State
		}
		return a.Printf("restored %s, %s, as of %s%s\n", text.Count(r.Files, "file"), text.Bytes(r.Bytes),
			r.Made.Local().Format("2006-01-02 15:04:05"), ended)
	}
	return c
}
