/**
 * What a private proxy refused a program, told when the program has ended: each target once, with what refused it, and
 * the rules that would have let it pass.
 */
import { serializeHostPort } from '../http/authority.js'
import { type Config, DEFAULT_RULES } from '../config/schema.js'
import { draftRules } from './draft-rules.js'
import { parseLogLine } from './log-event.js'
import { isLiftable, refusalText } from './refusal-text.js'
import { serializeRules } from './rules-yaml.js'
import { Sightings } from './sightings.js'

/** What the rules that are there have to do with the ones that are drafted. */
export interface RefusalContext {
  readonly config: Config
  /** Whether the configuration leaves `rules` out, so that those written there replace the default. */
  readonly defaultRules: boolean
  /** The entry of `clients` whose rules are a list, to which a new rule has to be added; else undefined. */
  readonly listedClient?: string | undefined
}

/** Targets told one by one. */
const MAX_LINES = 100

interface Refused {
  readonly target: string
  readonly method: string
  readonly text: string
  count: number
}

export class Refusals {
  readonly #context: RefusalContext
  readonly #refused = new Map<string, Refused>()
  readonly #liftable = new Sightings()
  #requests = 0
  #passed = 0

  constructor(context: RefusalContext) {
    this.#context = context
  }

  /** @param line a line of the log, in JSON */
  add(line: string): void {
    const event = parseLogLine(line)
    if (event === undefined || event.event === 'other') return
    const { target } = event
    if (event.event === 'close') {
      if (target?.form === 'forward' && event.status === 101) this.#liftable.addUpgrade(target)
      return
    }
    if (event.decision === 'allow') return
    this.#requests += 1
    if (event.decision === 'would_deny') this.#passed += 1
    const { config } = this.#context
    const where = target === undefined ? 'no target' : serializeHostPort(target.host, target.port)
    const method = target?.method ?? 'a request'
    const text = refusalText(event, config)
    const key = `${where} ${method} ${text}`
    const refused = this.#refused.get(key) ?? { target: where, method, text, count: 0 }
    this.#refused.set(key, refused)
    refused.count += 1
    if (target !== undefined && isLiftable(event, config)) this.#liftable.add(target)
  }

  /** What to print; empty when nothing was refused. */
  report(): string {
    if (this.#requests === 0) return ''
    const lines = [`sluice: ${this.#headline()}`]
    const all = [...this.#refused.values()]
    for (const { target, method, text, count } of all.slice(0, MAX_LINES)) {
      lines.push(`  ${target}  ${method}${count === 1 ? '' : `, ${count} times`}: ${text}`)
    }
    if (all.length > MAX_LINES) lines.push(`  and ${all.length - MAX_LINES} more`)
    return `${[...lines, ...this.#remedy()].join('\n')}\n`
  }

  #headline(): string {
    const denied = this.#requests - this.#passed
    if (this.#passed === 0) return `${requests(denied)} denied:`
    if (denied === 0) return `${requests(this.#passed)} would be denied if mode were enforce:`
    return `${requests(denied)} denied, ${this.#passed} more would be if mode were enforce:`
  }

  #remedy(): string[] {
    const { config, defaultRules, listedClient } = this.#context
    const rules = draftRules(this.#liftable, { taken: config.rules.keys() })
    if (rules.length === 0) return []
    const names = rules.map(({ name }) => name).join(', ')
    const kept = Object.entries(DEFAULT_RULES).map(([name, { hosts }]) => ({ name, hosts }))
    const yaml = serializeRules(defaultRules ? [...kept, ...rules] : rules)
    return [
      defaultRules
        ? 'Rules that would allow it, with the one that holds while the configuration has none:'
        : 'Rules that would allow it, to be added to those of the configuration:',
      ...(listedClient === undefined
        ? []
        : [`(and their names to rules of the client ${listedClient}: ${names})`]),
      '',
      yaml.trimEnd(),
    ]
  }
}

function requests(count: number): string {
  return count === 1 ? '1 request' : `${count} requests`
}
