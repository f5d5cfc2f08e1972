/** The parts of a JSON Schema that the documentation of the configuration is made of. */

export interface SchemaNode {
  readonly title?: string
  readonly description?: string
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly string[]
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly required?: readonly string[]
  readonly additionalProperties?: SchemaNode | false
  readonly items?: SchemaNode
  readonly anyOf?: readonly SchemaNode[]
}

/** The keys of a map, be it that the value is one, may be one, or is a list of maps or a map of names to maps. */
export function mapOf(node: SchemaNode): SchemaNode | undefined {
  if (node.properties !== undefined) return node
  if (node.items?.properties !== undefined) return node.items
  if (typeof node.additionalProperties === 'object') return node.additionalProperties
  return node.anyOf?.find(form => form.properties !== undefined)
}
