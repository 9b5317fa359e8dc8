package accel

import "sync"

// model is a canonical name and its other spellings, squeezed.
type model struct {
	name    string
	aliases []string
}

// models lists accelerators that clouds rent out. Some are not in the catalogue: a job file may name one that only a
// user's own catalogue offers. Aliases are the spellings that squeezing the canonical name does not give: default
// memory sizes, names of drivers and of Kubernetes' device labels, and names of cloud APIs.
var models = []model{
	{name: "A10"},
	{name: "A10G"},
	{name: "A16"},
	{name: "A30"},
	{name: "A40"},
	{name: "A100", aliases: []string{"a10040gb", "a10040g", "a100sxm440gb", "a100pcie40gb"}},
	{name: "A100-80GB", aliases: []string{"a10080g", "a100sxm480gb", "a100pcie80gb", "a10080gbpcie"}},
	{name: "A2"},
	{name: "A4000", aliases: []string{"rtxa4000"}},
	{name: "A5000", aliases: []string{"rtxa5000"}},
	{name: "A6000", aliases: []string{"rtxa6000"}},
	{name: "Alveo-U250", aliases: []string{"u250"}},
	{name: "B200", aliases: []string{"b200180gb", "b200192gb"}},
	{name: "B300"},
	{name: "Gaudi", aliases: []string{"gaudihl205", "hl205"}},
	{name: "Gaudi2"},
	{name: "Gaudi3"},
	{name: "GB200"},
	{name: "GB300"},
	{name: "GH200", aliases: []string{"gh20096gb", "gh200480gb"}},
	{name: "H100", aliases: []string{"h10080gb", "h10080gbhbm3"}},
	{name: "H100-MEGA", aliases: []string{"h100mega80gb"}},
	{name: "H200", aliases: []string{"h200141gb"}},
	{name: "Inferentia", aliases: []string{"inferentia1"}},
	{name: "Inferentia2"},
	{name: "K80"},
	{name: "L4"},
	{name: "L40"},
	{name: "L40S"},
	{name: "M4000"},
	{name: "M60"},
	{name: "MI25"},
	{name: "MI100"},
	{name: "MI210"},
	{name: "MI250"},
	{name: "MI300X", aliases: []string{"mi300x192gb"}},
	{name: "MI325X"},
	{name: "P4"},
	{name: "P40"},
	{name: "P100", aliases: []string{"p10016gb", "p100pcie16gb", "p100sxm216gb"}},
	{name: "P4000"},
	{name: "P5000"},
	{name: "P6000"},
	{name: "Qualcomm-AI100", aliases: []string{"ai100", "cloudai100", "qualcommcloudai100"}},
	{name: "Radeon-Pro-V520", aliases: []string{"v520", "radeonv520"}},
	{name: "Radeon-Pro-V620", aliases: []string{"v620", "radeonv620"}},
	{name: "Radeon-Pro-V710", aliases: []string{"v710", "radeonv710"}},
	{name: "RTX3060"},
	{name: "RTX3070"},
	{name: "RTX3080"},
	{name: "RTX3090"},
	{name: "RTX4090"},
	{name: "RTX5000", aliases: []string{"rtx500016gb"}},
	{name: "RTX5090"},
	{name: "RTX6000"},
	{name: "RTX6000-Ada", aliases: []string{"6000ada", "rtx6000adageneration"}},
	{name: "RTX-PRO-6000", aliases: []string{"rtxpro6000blackwell", "rtxpro6000blackwellserveredition"}},
	{name: "T4"},
	{name: "T4g"},
	{name: "Trainium", aliases: []string{"trainium1"}},
	{name: "Trainium2"},
	{name: "U30", aliases: []string{"alveou30"}},
	{name: "V100", aliases: []string{"v10016gb", "v100sxm216gb", "v100pcie16gb"}},
	{name: "V100-32GB", aliases: []string{"v100sxm232gb", "v100sxm332gb", "v100pcie32gb"}},
	{name: "VU9P", aliases: []string{"virtexultrascale+vu9p"}},
	{name: "VU47P", aliases: []string{"virtexultrascale+vu47p"}},
}

// families are machine series that users write as if they were accelerators, with the accelerator of their machines.
var families = map[string]string{
	"p2": "K80", "p3": "V100", "p3dn": "V100-32GB", "p4d": "A100", "p4de": "A100-80GB",
	"p5": "H100", "p5e": "H200", "p5en": "H200", "p6": "B200",
	"g3": "M60", "g4dn": "T4", "g4ad": "Radeon-Pro-V520", "g5": "A10G", "g5g": "T4g",
	"g6": "L4", "gr6": "L4", "g6e": "L40S",
	"inf1": "Inferentia", "inf2": "Inferentia2", "trn1": "Trainium", "trn1n": "Trainium", "trn2": "Trainium2",
	"dl1": "Gaudi", "vt1": "U30",
	"a2highgpu": "A100", "a2megagpu": "A100", "a2ultragpu": "A100-80GB",
	"a3highgpu": "H100", "a3megagpu": "H100-MEGA", "a3ultragpu": "H200", "a4highgpu": "B200",
	"g2standard": "L4",
}

// spellings maps every squeezed spelling to its canonical name. It is built once and never changes.
var spellings = sync.OnceValue(func() map[string]string {
	m := make(map[string]string, 2*len(models))
	for _, model := range models {
		m[squeeze(model.name)] = model.name
		for _, alias := range model.aliases {
			m[alias] = model.name
		}
	}
	return m
})
