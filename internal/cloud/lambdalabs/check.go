package lambdalabs

import (
	"context"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Check implements driver.Checker. The API reports neither the owner of a key nor the quotas.
func (c *Cloud) Check(ctx context.Context) (driver.Report, error) {
	r := driver.Report{Identity: "holder of an API key"}
	sold, err := c.Types(ctx)
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		r.Identity = ""
		r.Missing = append(r.Missing, lack(err))
		return r, nil
	}
	open := map[string]bool{}
	for _, s := range sold {
		for _, region := range s.Regions {
			open[region.Name] = true
		}
	}
	for region := range open {
		if len(c.cfg.Regions) == 0 || slices.Contains(c.cfg.Regions, region) {
			r.Regions = append(r.Regions, region)
		}
	}
	slices.Sort(r.Regions)
	for _, region := range c.cfg.Regions {
		if !open[region] {
			r.Missing = append(
				r.Missing,
				driver.Lack{What: fmt.Sprintf("region %s has no machines available now", region),
					Mend: "name other regions, or none for all of them"},
			)
		}
	}
	var keys []sshKey
	if err := c.get(ctx, "/ssh-keys", &keys); err != nil {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		r.Missing = append(r.Missing, lack(err))
	} else if name := c.cfg.SSHKey; name != "" &&
		!slices.ContainsFunc(keys, func(k sshKey) bool { return k.Name == name }) {
		r.Missing = append(r.Missing, driver.Lack{What: "the account has no SSH key " + name, Fatal: true,
			Mend: "add it at https://cloud.lambda.ai/ssh-keys"})
	}
	return r, nil
}

// lack converts a failure to a report with advice.
func lack(err error) driver.Lack {
	e := typed(err)
	l := driver.Lack{What: err.Error()}
	if e == nil {
		return l
	}
	l.Fatal = e.Kind == cloud.Auth
	switch e.Code {
	case codeNoKey:
		l.Mend = "tradewind cloud add lambda --key-file FILE"
	case codeAuth:
		l.Mend = "make a key at https://cloud.lambda.ai/api-keys and put it in the key file"
	case codeInactive:
		l.Mend = "verify the e-mail address and a means of payment at https://cloud.lambda.ai"
	case codeAddress:
		l.Mend = "correct the billing address at https://cloud.lambda.ai"
	default:
		l.Mend = "try again; https://status.lambda.ai shows whether the API is down"
	}
	return l
}
