package driver

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ErrSettings says that a cloud's settings cannot be read.
var ErrSettings = errors.New("settings of a cloud")

var (
	settingName  = regexp.MustCompile(`^[a-z][A-Za-z-]{0,30}$`)
	settingValue = regexp.MustCompile(`^[!-+\--~]{1,500}$`) // ASCII without spaces and commas
)

// ParseSettings reads NAME=VALUE by comma. Values hold neither spaces nor commas; a list's parts are joined by "+".
func ParseSettings(text string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		if !settingName.MatchString(name) || !settingValue.MatchString(value) {
			return nil, fmt.Errorf("%w: %.100q is no NAME=VALUE", ErrSettings, part)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%w: %s is there twice", ErrSettings, name)
		}
		out[name] = value
	}
	return out, nil
}

// FormatSettings writes what ParseSettings reads.
func FormatSettings(settings map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		out = append(out, name+"="+settings[name])
	}
	return strings.Join(out, ",")
}
