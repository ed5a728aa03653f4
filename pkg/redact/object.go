package redact

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"hook-sidecar/pkg/policy"
)

// Rule says what was removed.
type Rule string

// The rules.
const (
	Values      Rule = "values of variables"
	Arguments   Rule = "arguments of containers"
	Annotations Rule = "values of annotations"
	CloudInit   Rule = "cloud-init data"
	Headers     Rule = "values of HTTP headers"
	Data        Rule = "data of ConfigMaps and Secrets"
	Opaque      Rule = "settings of drivers, patches and policies, of any form"
	Named       Rule = "values whose name says that they are secret"
	Messages    Rule = "values in messages and logs"
	Domains     Rule = "values in a domain's XML"
)

// Removed counts what was removed, by rule.
type Removed map[Rule]int

// Add adds what another one has counted.
func (r Removed) Add(other Removed) {
	for rule, count := range other {
		r[rule] += count
	}
}

// Rules returns the rules by which something was removed, in order.
func (r Removed) Rules() []Rule { return slices.Sorted(maps.Keys(r)) }

// message removes secrets from a text, and counts them under a rule.
func (r Removed) message(rule Rule, text string, remove func(string) string) string {
	safe := remove(text)
	if count := strings.Count(safe, Mark) - strings.Count(text, Mark); count > 0 {
		r[rule] += count
	}
	return safe
}

// fields are the fields of objects whose values are removed, whatever they are.
var fields = map[string]Rule{
	// KubeVirt api/core/v1, CloudInitNoCloudSource and CloudInitConfigDriveSource
	"userData": CloudInit, "userDataBase64": CloudInit,
	"networkData": CloudInit, "networkDataBase64": CloudInit,
	"data": Data, "stringData": Data, "binaryData": Data,
	"httpHeaders": Headers, "extraHeaders": Headers,
	"parameters": Opaque, // k8s.io/api/resource/v1, OpaqueDeviceConfiguration
	"patch":      Opaque, // KubeVirt api/core/v1, CustomizeComponentsPatch
	"kernelArgs": Opaque, // KubeVirt api/core/v1, KernelBoot
	// k8snetworkplumbingwg network-attachment-definition-client, NetworkSelectionElement
	"cni-args": Opaque,
	"command":  Arguments, "args": Arguments,
	"annotations": Annotations,
}

// celFields are the fields of admission policies that have CEL, in which a pod may be spelled out.
var celFields = []string{
	"mutations", "validations", "variables", "matchConditions", "auditAnnotations",
}

// annotations are the annotations that keep their values, beside those of policy.AnnotationPrefix.
// KubeVirt's hookSidecars says whether a VM requests a hook; the scheduler's says which claim a
// pod's is (k8s.io/api/resource/v1, PodResourceClaimAnnotation).
var annotations = []string{
	"hooks.kubevirt.io/hookSidecars", "resource.kubernetes.io/pod-claim-name",
	"kubevirt.io/allow-pod-bridge-network-live-migration",
}

// settings are the keys of this hook's ConfigMap (manifests/plugin) beside those of its policy.
var settings = []string{"image", "lock"}

// reference matches a field that names a Secret, or says something about a token, and holds none.
var reference = regexp.MustCompile(`(?:Name|Ref|Refs|Reference|Kind|Seconds|Path|Class)$`)

// secretField matches a field whose value is a secret.
var secretField = regexp.MustCompile(`(?i)` + secretWord)

// Object removes secrets from an object of the API server, as package json decodes it, in place.
func Object(object map[string]any) Removed {
	r := Removed{}
	if metadata, isMap := object["metadata"].(map[string]any); isMap {
		delete(metadata, "managedFields") // who wrote which field
	}

	kind, _ := object["kind"].(string)
	if strings.HasSuffix(kind, "AdmissionPolicy") {
		spec, _ := object["spec"].(map[string]any)
		for _, name := range celFields {
			if spec[name] != nil {
				delete(spec, name)
				r[Opaque]++
			}
		}
	}

	isCEL := strings.HasPrefix(kind, "DeviceClass") || strings.HasPrefix(kind, "Resource")
	r.object(object, isCEL)
	return r
}

// object removes secrets from a map. Expressions of claims and classes stay.
func (r Removed) object(object map[string]any, isCEL bool) {
	_, isNamed := object["name"].(string)
	for name, value := range object {
		text, isText := value.(string)
		rule := fields[name]
		switch {
		case rule != "":
			object[name] = r.field(name, rule, value)
		case isText && text == "":
		case name == "value" && isNamed && isText: // of a variable, a header, a kernel parameter
			object[name] = Mark
			r[Values]++

		case isText && secretField.MatchString(name) && !reference.MatchString(name):
			object[name] = Mark
			r[Named]++

		case isText && (!isCEL || name != "expression"):
			object[name] = r.text(name, text)
		default:
			r.value(name, value, isCEL)
		}
	}
}

// field returns what stays of a field that has a rule. It is of the same type.
func (r Removed) field(name string, rule Rule, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		r[rule]++
		if rule == CloudInit {
			return cloudInitHeader(v, strings.HasSuffix(name, "Base64"))
		}
		return Mark

	case []any:
		if rule == Arguments {
			return r.arguments(v, name == "command")
		}
		r[rule] += len(v)
		return []any{}

	case map[string]any:
		switch {
		case rule == Annotations:
			return r.annotations(v)
		case rule == Data && name == "data":
			return r.data(v)
		}
		r[rule]++
		return map[string]any{}
	}

	r[rule]++
	return nil
}

// value removes secrets from what a field or a list has.
func (r Removed) value(name string, value any, isCEL bool) {
	switch v := value.(type) {
	case map[string]any:
		r.object(v, isCEL)
	case []any:
		for i, item := range v {
			if text, isText := item.(string); isText {
				v[i] = r.text(name, text)
				continue
			}
			r.value(name, item, isCEL)
		}
	}
}

// messages are the fields of objects that have sentences.
var messages = []string{"message", "reason", "note", "description"}

// text removes secrets from a text of an object: those that a message may have and, of what is a
// name or an address, those of a known form.
func (r Removed) text(name, text string) string {
	if slices.Contains(messages, name) || strings.ContainsAny(text, " \t\n=\"'<[{") {
		return r.message(Messages, text, Text)
	}
	return r.message(Messages, text, bareSecrets)
}

// structured removes secrets from a text that may be JSON, as from an object.
func (r Removed) structured(text string) string {
	var object any
	if json.Unmarshal([]byte(text), &object) != nil {
		return r.text("", text)
	}

	r.value("", object, false)
	data, err := json.Marshal(object)
	if err != nil {
		return Mark
	}

	return string(data)
}

// arguments removes the arguments that are not this hook's policy. A program's name, the names of
// flags, and the hook's values stay.
func (r Removed) arguments(list []any, hasProgram bool) []any {
	keeps := hasProgram // the next
	for i, item := range list {
		text, _ := item.(string)
		flag, value, hasValue := strings.Cut(text, "=")
		isFlag := strings.HasPrefix(flag, "-")
		switch {
		case isFlag && isPolicy(flag):
			keeps = !hasValue
			list[i] = r.text("", text)

		case isFlag && hasValue:
			list[i], keeps = flag+"="+Mark, false
			if value != "" {
				r[Arguments]++
			}

		case isFlag:
			keeps = false
		case keeps:
			list[i], keeps = r.text("", text), false
		default:
			list[i] = Mark
			r[Arguments]++
		}
	}

	return list
}

// isPolicy reports whether a flag is one of the hook's policy.
func isPolicy(flag string) bool {
	name := strings.TrimLeft(flag, "-")
	return slices.Contains(policy.Keys(), policy.Key(name)) || name == "lock"
}

// annotations removes the values of annotations that no command reads.
func (r Removed) annotations(all map[string]any) map[string]any {
	for name, value := range all {
		text, isText := value.(string)
		key, isHooks := strings.CutPrefix(name, policy.AnnotationPrefix)
		isKept := slices.Contains(annotations, name) || isHooks && isPolicy(key)
		switch {
		case isText && isKept:
			all[name] = r.structured(text)
		case value != "":
			all[name] = Mark
			r[Annotations]++
		}
	}

	return all
}

// data removes the values of a ConfigMap or a Secret that are not settings of this hook.
func (r Removed) data(all map[string]any) map[string]any {
	for name, value := range all {
		text, isText := value.(string)
		if isText && (isPolicy(name) || slices.Contains(settings, name)) {
			all[name] = r.text("", text)
			continue
		}

		all[name] = Mark
		r[Data]++
	}

	return all
}

// cloudInitHeader returns what stays of cloud-init data: that it is of cloud-init.
func cloudInitHeader(data string, isBase64 bool) string {
	if isBase64 {
		decoded, _ := base64.StdEncoding.DecodeString(data) // of nothing if it is invalid
		return base64.StdEncoding.EncodeToString([]byte(cloudInitHeader(string(decoded), false)))
	}

	const header = "#cloud-config"
	if strings.HasPrefix(data, header) {
		return header + "\n# " + Mark + "\n"
	}

	return Mark
}

// bareSecrets removes the secrets that need no name.
func bareSecrets(text string) string { return bareIn(text, strings.ToLower(text)) }

// bareIn does what bareSecrets does, for a text whose lower case is known.
func bareIn(text, lower string) string {
	for _, b := range bare {
		if !hasOne(lower, b.in...) {
			continue
		}
		text = b.form.ReplaceAllStringFunc(text, func(found string) string {
			return b.form.ReplaceAllString(found, b.with) + lineEnds(found)
		})
	}

	return text
}
