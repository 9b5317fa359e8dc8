// Package lambdakit opens Lambda's GPU cloud.
package lambdakit

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// Environment variables that replace missing settings.
const (
	// EnvURL is the URL of the API, for emulators.
	EnvURL = "LAMBDA_API_URL"
	// EnvKeyFile is the file with the API key.
	EnvKeyFile = "LAMBDA_API_KEY_FILE"
)

// Kit returns the kit of Lambda's GPU cloud, with its API key in a file.
func Kit() cloudkit.Kit {
	return cloudkit.Kit{Name: lambdalabs.Name, Title: "Lambda GPU cloud",
		Example: "--key-file ~/.lambda-key",
		Ready:   ready, Account: account, Flags: flags,
		Open: func(_ context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
			if keyFile(r.Settings, r.Lookup) == "" {
				return nil, errNoKey
			}
			return open(r, lambdalabs.KeyFile(keyFile(r.Settings, r.Lookup))), nil
		}}
}

// KitBy returns the kit with an API key from another source.
func KitBy(key func(context.Context) (string, error)) cloudkit.Kit {
	k := Kit()
	k.Ready = func(cloudkit.Settings, cloudkit.Lookup) error { return nil }
	k.Open = func(_ context.Context, r cloudkit.Request) (*cloudkit.Opened, error) { return open(r, key), nil }
	return k
}

func flags(f *pflag.FlagSet, s *cloudkit.Settings) {
	f.StringVar(&s.KeyFile, "key-file", "", "file of mode 0600 with the API key (default: the file in "+EnvKeyFile+")")
	f.StringVar(&s.Proxy, "proxy", "", "HTTP proxy for the machines and their tasks: http://HOST:PORT")
	f.StringVar(&s.SSHKey, "ssh-key", "",
		"SSH key of the account, for logging in to machines (default: an unusable key)")
}

var errNoKey = errors.New("no file with an API key: tradewind cloud add lambda --key-file FILE")

func keyFile(s cloudkit.Settings, lookup cloudkit.Lookup) string {
	if s.KeyFile != "" {
		return s.KeyFile
	}
	return lookup(EnvKeyFile)
}

func ready(s cloudkit.Settings, lookup cloudkit.Lookup) error {
	file := keyFile(s, lookup)
	if file == "" {
		return errNoKey
	}
	if err := s.Check(); err != nil {
		return err
	}
	_, err := lambdalabs.KeyFile(file)(context.Background()) // a small file
	return err
}

func account(s cloudkit.Settings, lookup cloudkit.Lookup) string {
	if file := keyFile(s, lookup); file != "" {
		return "key in " + file
	}
	return ""
}

func open(r cloudkit.Request, key func(context.Context) (string, error)) *cloudkit.Opened {
	c := lambdalabs.New(lambdalabs.Config{
		Deployment: r.Deployment, Key: key, Endpoint: cmp.Or(r.Settings.Endpoint, r.Lookup(EnvURL)),
		Regions: r.Settings.Regions, SSHKey: r.Settings.SSHKey, Agents: r.Agents, Graves: r.Graves, Log: r.Log,
		Environment: r.Settings.Environment(),
	})
	return &cloudkit.Opened{Cloud: c, Checker: c, Regions: r.Settings.Regions, Refresh: refresher(c, r)}
}

func refresher(c *lambdalabs.Cloud, r cloudkit.Request) driver.Refresh {
	return func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
		one := lambdalabs.Refresher{Source: c, Snapshots: s, Now: time.Now, Log: r.Log}
		res, err := one.Refresh(ctx)
		return driver.Refreshed{Offers: res.Offers}, err
	}
}
