// Package prices is the command `tradewind prices`. It also reads and writes the recorded spot prices in a state
// folder, for this command and for those of tradewind-lab.
package prices

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Command is the prices command.
func Command(a *command.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "prices",
		Short: "Show recorded spot prices",
		Long: "Shows recorded spot prices from --prices, a folder of CSV files, or from the prices imported into the state\n" +
			"folder. docs/bidding.md describes the files. `tradewind-lab prices` imports and charts them.",
		Example: "  tradewind prices show 'n1-standard-4-*'",
	}
	command.Group(c)
	c.AddCommand(showCommand(a))
	return c
}

// Flags choose the prices that a command reads.
type Flags struct{ dir, state string }

// NewFlags adds --prices and --state to a command.
func NewFlags(a *command.App, c *cobra.Command) *Flags {
	var f Flags
	c.Flags().StringVar(&f.dir, "prices", "", "folder of recorded prices (default: the imported ones)")
	_ = c.MarkFlagDirname("prices")
	a.StateFlag(c, &f.state)
	return &f
}

// ImportedFile is the file of imported prices in a state folder.
func ImportedFile(state string) string { return filepath.Join(state, "prices", "imported.csv.gz") }

// Read returns the markets whose name matches a pattern, or all for an empty pattern.
func (f *Flags) Read(pattern string) ([]*market.Market, error) {
	var markets []*market.Market
	var err error
	if f.dir != "" {
		markets, err = ReadFolder(f.dir)
	} else {
		markets, err = ReadImported(f.state)
		if err == nil && len(markets) == 0 {
			return nil, command.BadInput(
				"name a folder with --prices, or import one with `tradewind-lab prices import`",
				"no prices have been imported into %s",
				f.state,
			)
		}
	}
	if err != nil || pattern == "" {
		return markets, err
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, command.BadInput("* matches anything, ? one character", "%q is not a valid pattern", pattern)
	}
	matched := slices.DeleteFunc(slices.Clone(markets), func(m *market.Market) bool {
		ok, _ := path.Match(pattern, m.Name)
		return !ok
	})
	if len(matched) == 0 {
		return nil, command.BadInput("`tradewind prices show` lists them", "no market matches %q; there are %s",
			pattern, text.Count(len(markets), "market"))
	}
	return matched, nil
}

// ReadImported returns the markets that were imported into a state folder; none if nothing was.
func ReadImported(state string) ([]*market.Market, error) {
	dir := filepath.Dir(ImportedFile(state))
	if _, err := os.Stat(ImportedFile(state)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return ReadFolder(dir)
}

// IsFolder returns an error for people unless dir is a folder.
func IsFolder(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return command.BadInput("", "folder %s does not exist", dir)
	}
	return nil
}

// ReadFolder returns the markets of the price files below a folder.
func ReadFolder(dir string) ([]*market.Market, error) {
	if dir == "" {
		return nil, command.BadInput("docs/bidding.md describes the files",
			"--prices is missing: a folder of recorded prices")
	}
	if err := IsFolder(dir); err != nil {
		return nil, err
	}
	markets, err := market.ReadMarkets(os.DirFS(dir))
	if err != nil {
		return nil, BadData(dir, err)
	}
	return markets, nil
}

// BadData describes an error in a file below a folder, with a path that the user can open.
func BadData(dir string, err error) error {
	var bad *market.BadData
	if errors.As(err, &bad) {
		told := *bad
		told.File = strings.TrimSuffix(dir, "/") + "/" + bad.File
		return command.Because(err, command.ExitBadInput, "the series must be complete: repair or remove the file",
			"%v", &told)
	}
	return command.Because(err, command.ExitBadInput, "", "%s: %v", dir, err)
}

// WriteImported replaces the file of imported prices atomically.
func WriteImported(state string, markets []*market.Market) error {
	file := ImportedFile(state)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return files.Fill(file, 0o600, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return errors.Join(market.WriteQuotes(z, markets), z.Close())
	})
}
