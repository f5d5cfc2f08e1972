/** Values as a person writes them into the configuration file: on one line, and without quotes where none are needed. */

const PLAIN = /^(?:[A-Za-z./][\w./-]*|\d+(?:ms|s|m|h|d|B|KiB|MiB|GiB))$/
const RESERVED = /^(?:true|false|null|yes|no|on|off|~)$/i

export function flow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(([key, member]) => `${key}: ${flow(member)}`)
    return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`
  }
  if (typeof value !== 'string') return String(value)
  // `off` is a word in YAML 1.2, which is what the loader reads.
  return PLAIN.test(value) && (value === 'off' || !RESERVED.test(value)) ? value : JSON.stringify(value)
}
