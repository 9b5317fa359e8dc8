package driver

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Report is what a cloud says of whoever would buy there.
type Report struct {
	Identity string   `json:"identity,omitempty"` // as whom the cloud knows the caller
	Account  string   `json:"account,omitempty"`  // account, project or subscription that is billed
	Regions  []string `json:"regions,omitempty"`  // that can be bought in
	Quotas   []Quota  `json:"quotas,omitempty"`
	// Reserved is the capacity that the account has already.
	Reserved []Reserved `json:"reserved,omitempty"`
	Missing  []Lack     `json:"missing,omitempty"` // nothing: it can be bought
}

// Reserved is capacity that an account pays for whether it is used or not.
type Reserved struct {
	ID           string  `json:"id"`
	Where        string  `json:"where"` // REGION, or REGION/ZONE
	InstanceType string  `json:"instanceType"`
	Count        int     `json:"count"` // machines that may run on it at once
	USDPerHour   float64 `json:"usdPerHour"`
	By           string  `json:"by"` // how it is known
	// What is which machines it is for, where these are of several types.
	What string `json:"what,omitempty"`
	// Has is how much of Total others leave; zero of both is not known, or counted in machines alone.
	Has   apitypes.Amount `json:"has,omitzero"`
	Total apitypes.Amount `json:"total,omitzero"`
	// UsedLastDay is which share of it was used in the last day, by whomever, where the cloud says no more than that.
	UsedLastDay *float64 `json:"usedLastDay,omitempty"`
}

// Quota is a limit of the account.
type Quota struct {
	Name   string  `json:"name"`
	Region string  `json:"region,omitempty"` // empty is everywhere
	Limit  float64 `json:"limit"`
	Used   float64 `json:"used"`
}

// Lack is what stands in the way of buying, or of buying all there is.
type Lack struct {
	What  string `json:"what"`            // in one line, with the cloud's own words where it said some
	Mend  string `json:"mend,omitempty"`  // the command that mends it
	Fatal bool   `json:"fatal,omitempty"` // nothing can be bought before it is mended
}

// Checker is a driver that can say what it may do. Check fails only when ctx ends; whatever a cloud refuses is a Lack.
type Checker interface {
	Check(ctx context.Context) (Report, error)
}
