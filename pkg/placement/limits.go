package placement

// Partner is another app that shares rules with an app.
type Partner struct {
	App   int32
	Other int32 // maximum number of instances of the other app on a machine with this app
	Self  int32 // maximum number of instances of this app on a machine with the other app
}

// Limits are the rules of a problem by app. They determine which apps are on a machine's blacklist (paper, section
// III.C, equations 7 and 8). If several rules concern the same apps, the strictest applies.
type Limits struct {
	Self     []int32     // maximum of each app on one machine
	Partners [][]Partner // of each app
}

// NewLimits collects the rules of a problem.
func NewLimits(p *Problem) *Limits {
	l := &Limits{}
	l.Grow(len(p.Apps))
	for _, r := range p.Rules {
		l.Add(r)
	}
	return l
}

// Grow extends the limits to n apps. The new apps have no limits.
func (l *Limits) Grow(n int) {
	for len(l.Self) < n {
		l.Self = append(l.Self, NoLimit)
		l.Partners = append(l.Partners, nil)
	}
}

// Add adds a rule.
func (l *Limits) Add(r Rule) {
	if r.A == r.B {
		l.Self[r.A] = min(l.Self[r.A], r.Max)
		return
	}
	there, back := l.partner(r.A, r.B), l.partner(r.B, r.A)
	l.Partners[r.A][there].Other = min(l.Partners[r.A][there].Other, r.Max)
	l.Partners[r.B][back].Self = min(l.Partners[r.B][back].Self, r.Max)
}

func (l *Limits) partner(a, b int32) int {
	for i, p := range l.Partners[a] {
		if p.App == b {
			return i
		}
	}
	l.Partners[a] = append(l.Partners[a], Partner{b, NoLimit, NoLimit})
	return len(l.Partners[a]) - 1
}
