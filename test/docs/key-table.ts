/** The table of keys in config/README.md, made from the JSON Schema of the configuration file. */
import { mapOf, type SchemaNode } from './schema-node.js'
import { flow } from './yaml-text.js'

interface Key {
  readonly path: string
  readonly node: SchemaNode
  readonly required: boolean
}

/** Sections of config/README.md and of others that have more to say of a key and all below it. */
const MORE: Readonly<Record<string, string>> = {
  include: '[Several files](#several-files)',
  'rules.<name>.hosts_file': '[Lists of hosts](#lists-of-hosts)',
  'listen.proxy': '[Listeners](#listeners)',
  'listen.admin': '[Who may ask the admin listener](../src/admin/README.md#who-may-ask-the-admin-listener)',
  'listen.tls': '[TLS to the proxy](#tls-to-the-proxy)',
  workers: '[Workers](../docker/README.md#workers)',
  mode: '[mode: observe](#mode-observe)',
  'connect.sni': '[Server names](#server-names)',
  'methods.extra': '[Max-Forwards and extension methods](#max-forwards-and-extension-methods)',
  clients: '[Clients and credentials](#clients-and-credentials)',
  rules: '[Rules](#rules)',
  'dns.servers': '[DNS](#dns)',
  parent: '[Behind another proxy](#behind-another-proxy)',
  origins: '[Origins](#origins)',
  'origins.store': '[The store](../src/origin/store/README.md)',
  limits: '[Limits](#limits)',
  cache: '[The cache](../src/upstream/cache/README.md)',
  'log.format': '[The log](../src/observe/README.md#the-log)',
  'reload.watch': '[Reload](#reload)',
  tracing: '[Tracing](../src/observe/README.md#tracing)',
  'shutdown.drain': '[Stopping](../docker/README.md#stopping)',
}

/** @param schema of the whole file */
export function keyTable(schema: SchemaNode): string {
  const keys = keysOf(schema, '')
  const unknown = Object.keys(MORE).filter(path => !keys.some(key => key.path === path))
  if (unknown.length > 0) throw new Error(`no such key: ${unknown.join(', ')}`)
  const rows = keys.map(
    key => `| \`${key.path}\` | ${cell(valueInWords(key.node))} | ${defaultOf(key)} | ${whatItSays(key)} |`,
  )
  return ['| key | value | default | what it says |', '| --- | --- | --- | --- |', ...rows].join('\n')
}

/** Every key that has something to be said of it, those of maps behind their map: `rules.<name>.hosts`. */
function keysOf(map: SchemaNode, prefix: string): Key[] {
  return Object.entries(map.properties ?? {}).flatMap(([name, node]) => {
    const path = `${prefix}${name}`
    const own = { path, node, required: map.required?.includes(name) === true }
    const below = mapOf(node)
    const nested =
      below === undefined
        ? []
        : keysOf(below, typeof node.additionalProperties === 'object' ? `${path}.<name>.` : `${path}.`)
    return node.description === undefined ? nested : [own, ...nested]
  })
}

/** What may be written, in words. */
function valueInWords(node: SchemaNode): string {
  if (node.title !== undefined) return node.title
  if (node.enum !== undefined) return listed(node.enum)
  if (node.const !== undefined) return `\`${String(node.const)}\``
  if (node.properties !== undefined) return 'a map'
  throw new Error(`a value without a title: ${JSON.stringify(node)}`)
}

function listed(words: readonly string[]): string {
  const marked = words.map(word => `\`${word}\``)
  return `${marked.slice(0, -1).join(', ')} or ${marked.at(-1)}`
}

function defaultOf({ node, required }: Key): string {
  if (required) return 'required'
  const isMap = node.properties !== undefined
  return node.default === undefined || isMap ? '' : `\`${flow(node.default)}\``
}

function whatItSays({ path, node }: Key): string {
  const more = MORE[path]
  return `${cell(node.description ?? '')}${more === undefined ? '' : ` See ${more}.`}`
}

/** Text of a cell; what Markdown would take for its own is escaped, but for what is in backticks. */
function cell(text: string): string {
  return text
    .split('`')
    .map((part, index) => (index % 2 === 1 ? part : part.replace(/[*<|]/g, '\\$&')))
    .join('`')
    .replace(/(`[^`]*)\|/g, '$1\\|')
}
