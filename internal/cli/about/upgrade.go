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

// feed is where releases are told of, as GitHub's API tells them.
const feed = "https://api.github.com/repos/tradewind-broker/tradewind/releases"

// Bounds on a feed.
const (
	feedWithin = 15 * time.Second
	feedBytes  = 4 << 20
)

// Release is a version that can be had.
type Release struct {
	Version   string    `json:"version"`
	Published time.Time `json:"published,omitzero"`
	URL       string    `json:"url,omitempty"`
	Notes     string    `json:"notes,omitempty"` // what is new in it
}

// Upgrades is what `upgrade -o json` prints.
type Upgrades struct {
	Version string    `json:"version"`          // of this program
	Newest  string    `json:"newest,omitempty"` // that was released
	Newer   []Release `json:"newer"`            // than this program, the newest first
}

// Upgrade is the command upgrade.
func Upgrade(a *command.App) *cobra.Command {
	from := ""
	c := &cobra.Command{
		Use: "upgrade", Short: "Say what is new since this version",
		Long: "Reads which versions were released, says what is new in those since this one, and where they are. It\n" +
			"installs nothing: what installed this program does that best. A build of the source is told of the\n" +
			"newest.",
		Example: "  tradewind upgrade\n  tradewind upgrade -o json",
		Args:    command.Args(0, 0),
	}
	c.Flags().StringVar(&from, "feed", feed, "`URL` of the list of releases, as GitHub's API has it")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		released, err := releases(ctx, from)
		if err != nil {
			return command.Because(err, command.ExitFailed, "--feed names another list",
				"which versions there are: %v", err)
		}
		u := upgrades(a.Version, released)
		if output.JSON() {
			return a.PrintJSON(u)
		}
		return a.PrintLines(u.lines())
	}
	return c
}

// releases reads a feed: the final releases, the newest first.
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
	defer res.Body.Close() //nolint:errcheck // only read from
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, res.Status)
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
		return nil, fmt.Errorf("%s is no list of releases: %w", url, err)
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

// numbers are those of a final version, as in v1.12.0; ok is false for what is none.
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

// plain is text from elsewhere without what would move a terminal's cursor.
func plain(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.TrimSpace(text))
}

// upgrades are those releases that are newer than a version; for a build of the source, which has none, the newest.
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

// lines tell it to a person.
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
