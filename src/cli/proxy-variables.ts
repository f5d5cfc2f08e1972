/**
 * The environment that leads a program's requests through a proxy.
 *
 * Programs disagree about the names: curl reads `http_proxy` in lower case alone, others only capitals; npm puts the
 * settings of its own files before them, but not before `npm_config_*`; Node asks to be told; Java reads its own
 * options and nothing else. What a program's own settings say beats all of this.
 */
import { serializeListenAddress, type TcpAddress } from '../config/listen-address.js'

type Environment = Readonly<Record<string, string | undefined>>

/** A program's own servers, which the proxy would refuse to reach. */
const NO_PROXY = 'localhost,127.0.0.1,::1'

const PROXY_NAMES = [
  'HTTP_PROXY',
  'http_proxy',
  'HTTPS_PROXY',
  'https_proxy',
  'ALL_PROXY',
  'all_proxy',
  'npm_config_proxy',
  'npm_config_https_proxy',
]
const NO_PROXY_NAMES = ['NO_PROXY', 'no_proxy', 'npm_config_noproxy']

/** @returns the environment with every variable set; what else it has stays */
export function withProxy(environment: Environment, proxy: TcpAddress): Environment {
  const url = `http://${serializeListenAddress(proxy)}`
  return {
    ...environment,
    ...Object.fromEntries(PROXY_NAMES.map(name => [name, url])),
    ...Object.fromEntries(NO_PROXY_NAMES.map(name => [name, NO_PROXY])),
    NODE_USE_ENV_PROXY: '1',
    JAVA_TOOL_OPTIONS: javaOptions(environment['JAVA_TOOL_OPTIONS'], proxy),
  }
}

/** Behind those that are there already, because the last of two that say different things counts. */
function javaOptions(present: string | undefined, { host, port }: TcpAddress): string {
  const ours = ['http', 'https'].flatMap(scheme => [
    `-D${scheme}.proxyHost=${host}`,
    `-D${scheme}.proxyPort=${port}`,
  ])
  return [...(present === undefined || present === '' ? [] : [present]), ...ours].join(' ')
}
