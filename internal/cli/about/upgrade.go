package about

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// defaultFeed lists the releases in the format of GitHub's API.
const defaultFeed = "https://api.github.com/repos/tradewind-broker/tradewind/releases"

// Limits on a feed.
const (
	feedWithin = 15 * time.Second
	feedBytes  = 4 << 20
)

// Release is a released version.
type Release struct {
	Version   string    `json:"version"`
	Published time.Time `json:"published,omitzero"`
	URL       string    `json:"url,omitempty"`
	Notes     string    `json:"notes,omitempty"` // the changes of the new version
}

// Upgrades is the output of `upgrade -o json`.
type Upgrades struct {
	Version string    `json:"version"`          // of this program
	Newest  string    `json:"newest,omitempty"` // newest release
	Newer   []Release `json:"newer"`            // releases newer than this program, newest first
}

// Upgrade is the upgrade command.
func Upgrade(a *command.App) *cobra.Command {
	from := ""
	c := &cobra.Command{
		Use: "upgrade", Short: "Show what is new since this version",
		Long: "Lists the releases that are newer than this program, with what is new in each and where to get it. The\n" +
			"command installs nothing: to upgrade, use the installer with which you installed this program. For a\n" +
			"program that was built from source, it shows only the newest release.",
		Example: "  tradewind upgrade\n  tradewind upgrade -o json",
		Args:    command.Args(0, 0),
	}
	c.Flags().StringVar(&from, "feed", defaultFeed, "`URL` of the list of releases, in the format of GitHub's API")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		released, err := releases(ctx, from)
		if err != nil {
			return command.Because(err, command.ExitFailed, "--feed names another list",
				"cannot list the releases: %v", err)
		}
		u := upgrades(a.Version, released)
		if output.JSON() {
			return a.PrintJSON(u)
		}
		return a.PrintLines(u.lines())
	}
	return c
}

// releases reads a feed and returns its final releases, newest first.
func releases(ctx context.Context, url string) ([]Release, error) {
	ctx, cancel := context.WithTimeout(ctx, feedWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responded %s", url, res.Status)
	}
	var told []struct {
		Tag        string    `json:"tag_name"`
		Body       string    `json:"body"`
		URL        string    `json:"html_url"`
		Published  time.Time `json:"published_at"`
		Draft      bool      `json:"draft"`
		Prerelease bool      `json:"prerelease"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, feedBytes)).Decode(&told); err != nil {
		return nil, fmt.Errorf("%s is not a list of releases: %w", url, err)
	}
	var out []Release
	for _, r := range told {
		if _, final := numbers(r.Tag); final && !r.Draft && !r.Prerelease {
			out = append(out, Release{Version: r.Tag, Published: r.Published, URL: plain(r.URL), Notes: plain(r.Body)})
		}
	}
	slices.SortStableFunc(out, func(x, y Release) int { return compare(y.Version, x.Version) })
	return out, nil
}

// numbers returns the numbers of a final version such as v1.12.0; ok is false for anything else.
func numbers(version string) (n [3]int, ok bool) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) != len(n) {
		return n, false
	}
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return n, false
		}
		n[i] = int(v) //nolint:gosec // 31 bits
	}
	return n, true
}

// compare orders final versions.
func compare(x, y string) int {
	a, _ := numbers(x)
	b, _ := numbers(y)
	return slices.Compare(a[:], b[:])
}

// plain removes characters from a remote text that could move the terminal's cursor.
func plain(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.TrimSpace(text))
}

// upgrades returns the releases newer than version. A build from source has no version and gets only the newest.
func upgrades(version string, released []Release) Upgrades {
	u := Upgrades{Version: version, Newer: []Release{}}
	if len(released) == 0 {
		return u
	}
	u.Newest = released[0].Version
	if _, final := numbers(version); !final {
		u.Newer = released[:1]
		return u
	}
	for _, r := range released {
		if compare(r.Version, version) > 0 {
			u.Newer = append(u.Newer, r)
		}
	}
	return u
}

// lines renders the upgrades for a person.
func (u Upgrades) lines() []string {
	switch {
	case u.Newest == "":
		return []string{"this is " + u.Version + "; no version has been released yet"}
	case len(u.Newer) == 0:
		return []string{"this is " + u.Version + ", and nothing newer has been released"}
	}
	out := []string{"this is " + u.Version + "; the newest release is " + u.Newest}
	for _, r := range u.Newer {
		out = append(out, "", r.Version+" ("+r.Published.UTC().Format(time.DateOnly)+") "+r.URL)
		for line := range strings.SplitSeq(r.Notes, "\n") {
			if line != "" {
				out = append(out, "  "+line)
			}
		}
	}
	return out
}
