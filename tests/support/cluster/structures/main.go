// Prints how the API server holds its built-in kinds, as JSON: see
// Structures in renderer/builtin_kinds/__init__.py.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type named interface{ OpenAPIModelName() string }

var structures = map[string][]any{}

func main() {
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, aggregator.AddToScheme} {
		if err := add(scheme.Scheme); err != nil {
			panic(err)
		}
	}
	for _, kind := range scheme.Scheme.AllKnownTypes() {
		visit(kind)
	}
	if err := json.NewEncoder(os.Stdout).Encode(structures); err != nil {
		panic(err)
	}
}

// visit notes a structure and those in it. It answers its name, "" if OpenAPI
// does not know it.
func visit(kind reflect.Type) string {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
		kind = kind.Elem()
	}
	model, ok := reflect.Zero(kind).Interface().(named)
	if !ok || kind.Kind() != reflect.Struct {
		return ""
	}
	name := model.OpenAPIModelName()
	if _, known := structures[name]; known {
		return name
	}
	structures[name] = []any{}
	fields := []any{}
	for index := range kind.NumField() {
		field := kind.Field(index)
		inner := visit(field.Type)
		called, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		number := 0
		if parts := strings.Split(field.Tag.Get("protobuf"), ","); len(parts) > 1 {
			number, _ = strconv.Atoi(parts[1])
		}
		switch {
		case !field.IsExported() || called == "-":
		case called == "" && field.Anonymous:
			fields = append(fields, []any{"", number, inner})
		default:
			fields = append(fields, []any{called, number, presence(field.Type, options)})
		}
	}
	structures[name] = fields
	return name
}

func presence(kind reflect.Type, options string) string {
	optional := strings.Contains(options, "omitempty")
	switch {
	case kind.Kind() == reflect.Pointer && !optional:
		return "null"
	case kind.Kind() == reflect.Pointer:
		return "pointer"
	case strings.Contains(options, "omitzero"), optional && kind.Kind() != reflect.Struct:
		return "omitempty"
	}
	return "always"
}
