/** Drafted rules as the text of a configuration's `rules` section. */
import { Document, type Scalar, type YAMLSeq } from 'yaml'
import type { Method } from '../http/method.js'
import type { PortRange, PortSet } from '../net/ports.js'

/** A rule to be written; what is undefined is left out. */
export interface WrittenRule {
  readonly name: string
  /** As parseHostPattern reads them. */
  readonly hosts?: readonly string[] | undefined
  readonly ports?: PortSet | undefined
  readonly methods?: readonly Method[] | undefined
  /** Blocks, as parseCidr reads them. */
  readonly addresses?: readonly string[] | undefined
}

/**
 * @returns YAML that is a configuration once `version: 1` stands before it, and `methods.extra` where rules list methods of
 *   that kind; what it holds is quoted where YAML would
 *   read it as anything but text
 */
export function serializeRules(rules: readonly WrittenRule[]): string {
  const document = new Document({
    rules: Object.fromEntries(rules.map(rule => [rule.name, sectionOf(rule)])),
  })
  for (const { name, hosts, ports, methods, addresses } of rules) {
    const listAt = (key: string): YAMLSeq => document.getIn(['rules', name, key], true) as YAMLSeq
    if (hosts !== undefined) {
      const hostList = listAt('hosts') as YAMLSeq<Scalar<string>>
      for (const host of hostList.items) {
        if (host.value.startsWith('*.')) host.comment = ` check: every name below ${host.value.slice(2)}`
      }
      setInline(hostList, hosts.length === 1 && !hosts[0]?.startsWith('*.'))
    }
    for (const [key, list] of Object.entries({ ports, methods, addresses })) {
      if (list !== undefined) setInline(listAt(key), true)
    }
  }
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

/** `[443]` in one line, or one item a line. */
function setInline(list: YAMLSeq, inline: boolean): void {
  list.flow = inline
}

function sectionOf({ hosts, ports, methods, addresses }: WrittenRule) {
  return {
    ...(hosts === undefined ? {} : { hosts }),
    ...(ports === undefined ? {} : { ports: portList(ports) }),
    ...(methods === undefined ? {} : { methods }),
    ...(addresses === undefined ? {} : { addresses }),
  }
}

/** As parsePorts reads them. */
function portList(ports: PortSet): (number | string)[] {
  return ports.flatMap(rangeItems)
}

function rangeItems({ first, last }: PortRange): (number | string)[] {
  if (first === last) return [first]
  return last === first + 1 ? [first, last] : [`${first}-${last}`]
}
