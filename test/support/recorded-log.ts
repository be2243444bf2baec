import { Logger, type INestApplicationContext, type LoggerService } from '@nestjs/common';

interface LogLine {
  level: 'debug' | 'error' | 'fatal' | 'log' | 'verbose' | 'warn';
  text: string;
}

/** What the app logs, instead of the console. The logger of Nest is one for the process: `release()` after the test. */
export class RecordedLog implements LoggerService {
  readonly lines: LogLine[] = [];

  /** Before or after the app has started. */
  attach(app?: INestApplicationContext): this {
    if (app) app.useLogger(this);
    else Logger.overrideLogger(this);
    return this;
  }

  release(): void {
    Logger.overrideLogger(['error', 'warn', 'fatal']);
  }

  /** Lines of one level, or of all. */
  texts(level?: LogLine['level']): string[] {
    return this.lines.filter((line) => level === undefined || line.level === level).map(({ text }) => text);
  }

  debug(message: unknown): void {
    this.#add('debug', message);
  }
  error(message: unknown): void {
    this.#add('error', message);
  }
  fatal(message: unknown): void {
    this.#add('fatal', message);
  }
  log(message: unknown): void {
    this.#add('log', message);
  }
  verbose(message: unknown): void {
    this.#add('verbose', message);
  }
  warn(message: unknown): void {
    this.#add('warn', message);
  }

  #add(level: LogLine['level'], message: unknown): void {
    this.lines.push({ level, text: String(message) });
  }
}
