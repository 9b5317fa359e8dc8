package driver

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Report is the result of checking an account that wants to buy from a cloud.
type Report struct {
	Identity string   `json:"identity,omitempty"` // the cloud's name of the caller
	Account  string   `json:"account,omitempty"`  // account, project or subscription that is billed
	Regions  []string `json:"regions,omitempty"`  // regions where the account can buy
	Quotas   []Quota  `json:"quotas,omitempty"`
	// Reserved is the capacity that the account already has.
	Reserved []Reserved `json:"reserved,omitempty"`
	Missing  []Lack     `json:"missing,omitempty"` // empty: the account can buy
}

// Reserved is capacity that an account pays for whether or not it is used.
type Reserved struct {
	ID           string  `json:"id"`
	Where        string  `json:"where"` // REGION, or REGION/ZONE
	InstanceType string  `json:"instanceType"`
	Count        int     `json:"count"` // maximum number of machines on it at the same time
	USDPerHour   float64 `json:"usdPerHour"`
	By           string  `json:"by"` // source of the information
	// What describes the machines that the capacity covers, if they are of several types.
	What string `json:"what,omitempty"`
	// Has is the part of Total that is not in use by others. If both fields are zero, the amount is unknown or
	// counted only in machines.
	Has   apitypes.Amount `json:"has,omitzero"`
	Total apitypes.Amount `json:"total,omitzero"`
	// UsedLastDay is the share that was used in the last day, by anyone, if the cloud reports nothing more precise.
	UsedLastDay *float64 `json:"usedLastDay,omitempty"`
}

// Quota is a limit of the account.
type Quota struct {
	Name   string  `json:"name"`
	Region string  `json:"region,omitempty"` // empty means all regions
	Limit  float64 `json:"limit"`
	Used   float64 `json:"used"`
}

// Lack is a problem that prevents the account from buying, or from buying everything.
type Lack struct {
	What  string `json:"what"`            // one line, with the cloud's own message if there is one
	Mend  string `json:"mend,omitempty"`  // the command that fixes it
	Fatal bool   `json:"fatal,omitempty"` // the account can buy nothing until it is fixed
}

// Checker is a driver that can report its rights. Check fails only when ctx ends. Everything that the cloud refuses
// is a Lack.
type Checker interface {
	Check(ctx context.Context) (Report, error)
}
