package driver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/names"
)

// ErrSettings says that a cloud's settings cannot be read.
var ErrSettings = errors.New("settings of a cloud")

// isSetting says whether a setting may have a name and a value: letters, and ASCII without spaces and commas.
func isSetting(name, value string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }
	return names.Made(name, 1, 31, names.Lower+names.Upper+"-") && strings.Contains(names.Lower, name[:1]) &&
		value != "" && len(value) <= 500 && !strings.ContainsFunc(value, odd)
}

// ParseSettings reads NAME=VALUE by comma. Values hold neither spaces nor commas; a list's parts are joined by "+".
func ParseSettings(text string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		if !isSetting(name, value) {
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

// Scheme is that of the URIs of a cloud's object store; empty for a cloud without one.
func Scheme(cloud string) string {
	return map[string]string{"aws": "s3", "gcp": "gs", "azure": "azblob"}[cloud]
}

// StoreURLs reads the setting "stores" of a cloud, REGION:BUCKET joined by "+", into the URLs of its regions' stores by
// place, CLOUD:REGION. It fails with ErrSettings.
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
			return nil, fmt.Errorf("%w: stores: %.100q is no REGION:BUCKET", ErrSettings, part)
		}
		if out[cloud+":"+region] != "" {
			return nil, fmt.Errorf("%w: stores: %s is there twice", ErrSettings, region)
		}
		out[cloud+":"+region] = scheme + "://" + bucket
	}
	return out, nil
}
