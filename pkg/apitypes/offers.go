package apitypes

// Offer names a machine type and where to buy it.
type Offer struct {
	Cloud        string `json:"cloud"`
	Region       string `json:"region"`
	Zone         string `json:"zone,omitempty"` // empty if the cloud sells by region
	InstanceType string `json:"instanceType"`
	// Accelerator must be attached to the machine on clouds that sell the two separately (GCP).
	// Elsewhere it is only information.
	Accelerator string  `json:"accelerator,omitempty"`
	AccelCount  float64 `json:"acceleratorCount,omitempty"`
	Spot        bool    `json:"spot"`
	USDPerHour  float64 `json:"usdPerHour"` // the price that the plan assumes, for one machine
	// Nodes is the number of machines that the plan chose; 0 is the number in the job file.
	Nodes int `json:"nodes,omitempty"`
	// Speed is the throughput of one vCPU with all vCPUs busy, relative to m6i.xlarge; 0 is 1. It counts for tasks that
	// use no accelerator.
	Speed float64 `json:"speed,omitempty"`
	// BootSeconds is the expected time from the request of the machine to the start of its agent. SlowBootSeconds is
	// the slow end of that time.
	BootSeconds     float64 `json:"bootSeconds,omitempty"`
	SlowBootSeconds float64 `json:"slowBootSeconds,omitempty"`
	// Service, if set, is the managed service that runs the task in place of machines with agents, and Release its
	// release: emr, 7.5.0. USDPerHour is then the price of everything that the service holds for the task.
	Service string `json:"service,omitempty"`
	Release string `json:"release,omitempty"`
	// Reservation, if set, is capacity of the account that the machines use: the cloud's ID, or a name from the
	// settings. Reserved is the number of machines that may use it at the same time.
	Reservation string `json:"reservation,omitempty"`
	Reserved    int    `json:"reserved,omitempty"`
	// Has and Takes replace Reserved if Reservation is a commitment that machines of several types
	// share. Has is how much of it may be in use at once, Takes how much one machine takes.
	Has   Amount `json:"has,omitzero"`
	Takes Amount `json:"takes,omitzero"`
}

// Room returns how much of the offer's reserved capacity may be in use at once, and how much of it the given number of
// machines takes.
func (o *Offer) Room(machines int) (has, takes Amount) {
	if o.Takes.IsZero() {
		return Amount{Machines: int64(o.Reserved)}, Amount{Machines: int64(machines)}
	}
	return o.Has, o.Takes.Times(machines)
}

// FittingOffers are the machines that fit a task.
type FittingOffers struct {
	Offers []FittingOffer `json:"offers" nullable:"false" doc:"The cheapest offer of each machine type, sorted by price; empty if none fits"`
}

// FittingOffer is a machine type that fits a task, at its cheapest place.
type FittingOffer struct {
	ID               string  `json:"id" doc:"The offer, with its market"`
	TimeKey          string  `json:"timeKey" doc:"Key of the task's time in a job file: the machine type, or the accelerators if the cloud attaches them to several types"`
	Cloud            string  `json:"cloud"`
	Region           string  `json:"region"`
	Zone             string  `json:"zone,omitempty" doc:"Missing if the cloud sells by region"`
	InstanceType     string  `json:"instanceType"`
	VCPUs            float64 `json:"vcpus"`
	MemoryGiB        float64 `json:"memoryGiB"`
	Accelerator      string  `json:"accelerator,omitempty"`
	AcceleratorCount float64 `json:"acceleratorCount,omitempty" doc:"Accelerators of one machine"`
	TFLOPS           float64 `json:"tflops,omitempty" doc:"Half-precision rating of all of its accelerators, 10^12 operations per second; missing if it is unknown"`
	Arch             string  `json:"arch" doc:"amd64 or arm64"`
	Family           string  `json:"family,omitempty" doc:"The machine type without its size"`
	CPU              string  `json:"cpu,omitempty" doc:"Processor"`
	Speed            float64 `json:"speed" doc:"Speed of a vCPU, relative to m6i.xlarge; 1 if it is unknown"`
	Market           string  `json:"market" doc:"on-demand or spot"`
	USDPerHour       float64 `json:"usdPerHour" doc:"Price of one machine without its disk and address, USD per hour"`
}
