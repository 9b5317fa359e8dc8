package driver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/names"
)

// ErrSettings means that a cloud's settings cannot be parsed.
var ErrSettings = errors.New("settings of a cloud")

// isSetting reports whether a name and a value are valid: the name consists of letters, and the value of ASCII
// without spaces and commas.
func isSetting(name, value string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }
	return names.Made(name, 1, 31, names.Lower+names.Upper+"-") && strings.Contains(names.Lower, name[:1]) &&
		value != "" && len(value) <= 500 && !strings.ContainsFunc(value, odd)
}

// ParseSettings reads a comma-separated list of NAME=VALUE. Values contain neither spaces nor commas; items of a list
// are joined by "+".
func ParseSettings(text string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		if !isSetting(name, value) {
			return nil, fmt.Errorf("%w: %.100q is not NAME=VALUE", ErrSettings, part)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%w: duplicate setting %s", ErrSettings, name)
		}
		out[name] = value
	}
	return out, nil
}

// FormatSettings is the inverse of ParseSettings.
func FormatSettings(settings map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		out = append(out, name+"="+settings[name])
	}
	return strings.Join(out, ",")
}

// Scheme is the URI scheme of a cloud's object store; empty if the cloud has none.
func Scheme(cloud string) string {
	return map[string]string{"aws": "s3", "gcp": "gs", "azure": "azblob"}[cloud]
}

// StoreURLs parses a cloud's setting "stores", REGION:BUCKET joined by "+". It returns the URL of each region's store
// by place, CLOUD:REGION. It fails with ErrSettings.
func StoreURLs(cloud string, settings map[string]string) (map[string]string, error) {
	out := map[string]string{}
	if settings["stores"] == "" {
		return out, nil
	}
	scheme := Scheme(cloud)
	if scheme == "" {
		return nil, fmt.Errorf("%w: %s has no object stores", ErrSettings, cloud)
	}
	for part := range strings.SplitSeq(settings["stores"], "+") {
		region, bucket, _ := strings.Cut(part, ":")
		if region == "" || !names.Bucket(bucket) {
			return nil, fmt.Errorf("%w: stores: %.100q is not REGION:BUCKET", ErrSettings, part)
		}
		if out[cloud+":"+region] != "" {
			return nil, fmt.Errorf("%w: stores: duplicate region %s", ErrSettings, region)
		}
		out[cloud+":"+region] = scheme + "://" + bucket
	}
	return out, nil
}
