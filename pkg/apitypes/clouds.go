package apitypes

// CloudReports are what the clouds of a broker say.
type CloudReports struct {
	Clouds []CloudReport `json:"clouds" nullable:"false" doc:"The clouds that the broker buys on"`
}

// CloudReport is what a cloud says to a broker that would buy there.
type CloudReport struct {
	Name     string          `json:"name" doc:"Name of the cloud"`
	Identity string          `json:"identity,omitempty" doc:"As whom the cloud knows the broker"`
	Account  string          `json:"account,omitempty" doc:"Account, project or subscription that is billed"`
	Regions  []string        `json:"regions,omitempty" doc:"Regions that can be bought in"`
	Quotas   []CloudQuota    `json:"quotas,omitempty" doc:"Limits of the account"`
	Reserved []CloudReserved `json:"reserved,omitempty" doc:"Capacity that the account has already"`
	Missing  []CloudLack     `json:"missing" nullable:"false" doc:"What stands in the way; nothing: it can be bought"`
	Machines int             `json:"machines" doc:"Machines of the deployment that run"`
	Played   bool            `json:"played,omitempty" doc:"The broker's computer plays the cloud: nothing is bought"`
}

// CloudQuota is a limit of an account.
type CloudQuota struct {
	Name   string  `json:"name" doc:"What is limited"`
	Region string  `json:"region,omitempty" doc:"Where; empty is everywhere"`
	Limit  float64 `json:"limit" doc:"How much there may be"`
	Used   float64 `json:"used" doc:"How much of it is used, where that is known"`
}

// CloudReserved is capacity that an account pays for whether it is used or not.
type CloudReserved struct {
	ID           string  `json:"id" doc:"The cloud's ID of it, or a name"`
	Where        string  `json:"where" doc:"REGION, or REGION/ZONE"`
	InstanceType string  `json:"instanceType" doc:"Type of the machines"`
	Count        int     `json:"count" doc:"Machines that may run on it at once"`
	USDPerHour   float64 `json:"usdPerHour" doc:"What one more hour of one costs, USD"`
	By           string  `json:"by" doc:"How it is known"`

	What        string   `json:"what,omitempty" doc:"Machines that it is for, where they are of several types"`
	Has         Amount   `json:"has,omitzero" doc:"How much of it others leave"`
	Total       Amount   `json:"total,omitzero" doc:"How much there is, where that is known"`
	UsedLastDay *float64 `json:"usedLastDay,omitempty" doc:"Share used in the last day, if no more is known"`
}

// CloudLack is what stands in the way of buying.
type CloudLack struct {
	What  string `json:"what" doc:"What is missing, in the cloud's own words where it said some"`
	Mend  string `json:"mend,omitempty" doc:"The command that mends it"`
	Fatal bool   `json:"fatal,omitempty" doc:"Nothing can be bought before"`
}
