/** The public API, for running a proxy inside another program. */
export { defaultConfig, type Loaded, loadConfig, parseConfig } from './config/load.js'
export { ConfigError, type Problem } from './config/problem.js'
export type { Config } from './config/schema.js'
export { createLogger, type LogLevel } from './observe/log.js'
export type { ReloadState, WorkerStatus } from './observe/worker-status.js'
export {
  type LoadedConfig,
  type ProxyEnvironment,
  type Reloaded,
  type RunningProxy,
  startProxy,
} from './run/proxy.js'
