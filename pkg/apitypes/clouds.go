package apitypes

// CloudReports are the reports of all clouds of a broker.
type CloudReports struct {
	Clouds []CloudReport `json:"clouds" nullable:"false" doc:"The clouds that the broker buys on"`
}

// CloudReport states whether a broker can buy in a cloud. It lists the regions, quotas and reserved capacity there.
type CloudReport struct {
	Name     string          `json:"name" doc:"Name of the cloud"`
	Identity string          `json:"identity,omitempty" doc:"The broker's identity at the cloud"`
	Account  string          `json:"account,omitempty" doc:"Account, project or subscription that is billed"`
	Regions  []string        `json:"regions,omitempty" doc:"Regions in which the broker can buy"`
	Quotas   []CloudQuota    `json:"quotas,omitempty" doc:"Limits of the account"`
	Reserved []CloudReserved `json:"reserved,omitempty" doc:"Capacity that the account already has"`
	Missing  []CloudLack     `json:"missing" nullable:"false" doc:"What prevents buying; empty if nothing does"`
	Machines int             `json:"machines" doc:"Running machines of the deployment"`
	Played   bool            `json:"played,omitempty" doc:"The cloud is simulated on the broker's computer: nothing is bought"`
}

// CloudQuota is a limit of an account.
type CloudQuota struct {
	Name   string  `json:"name" doc:"What is limited"`
	Region string  `json:"region,omitempty" doc:"Region of the limit; empty if it applies everywhere"`
	Limit  float64 `json:"limit" doc:"The maximum"`
	Used   float64 `json:"used" doc:"How much is used, if known"`
}

// CloudReserved is capacity that an account pays for whether it is used or not.
type CloudReserved struct {
	ID           string  `json:"id" doc:"The cloud's ID or name of it"`
	Where        string  `json:"where" doc:"REGION, or REGION/ZONE"`
	InstanceType string  `json:"instanceType" doc:"Type of the machines"`
	Count        int     `json:"count" doc:"Maximum number of machines that run on it at once"`
	USDPerHour   float64 `json:"usdPerHour" doc:"Cost of one more machine hour, USD"`
	By           string  `json:"by" doc:"How the broker knows of it"`

	What        string   `json:"what,omitempty" doc:"Machines it is for, if they are of several types"`
	Has         Amount   `json:"has,omitzero" doc:"How much others leave unused"`
	Total       Amount   `json:"total,omitzero" doc:"Total amount, if known"`
	UsedLastDay *float64 `json:"usedLastDay,omitempty" doc:"Share used in the last day, if nothing more exact is known"`
}

// CloudLack is a problem that prevents the broker from buying machines in a cloud.
type CloudLack struct {
	What  string `json:"what" doc:"What is missing, in the cloud's own words if it gave any"`
	Mend  string `json:"mend,omitempty" doc:"The command that fixes it"`
	Fatal bool   `json:"fatal,omitempty" doc:"Nothing can be bought until it is fixed"`
}
