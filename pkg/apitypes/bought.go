package apitypes

// Bought is the amount of bought machines that an attempt or a queue has. Machines of pools do not count. A machine
// that tasks of a job share counts once.
type Bought struct {
	Machines   int     `json:"machines,omitempty"`
	USDPerHour float64 `json:"usdPerHour,omitempty"` // the most that they may cost: spot machines at their bid
}

// Plus returns b + by.
func (b Bought) Plus(by Bought) Bought {
	return Bought{b.Machines + by.Machines, b.USDPerHour + by.USDPerHour}
}

// Minus returns b - by, but nothing below zero. Without machines it is zero, whatever was rounded.
func (b Bought) Minus(by Bought) Bought {
	if b.Machines <= by.Machines {
		return Bought{}
	}
	return Bought{b.Machines - by.Machines, max(b.USDPerHour-by.USDPerHour, 0)}
}
