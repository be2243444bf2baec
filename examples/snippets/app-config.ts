import { Injectable, Module } from '@nestjs/common';

/** As that of `@nestjs/config`. */
@Injectable()
export class ConfigService {
  getOrThrow(name: string): string {
    const value = process.env[name];
    if (value === undefined) throw new Error(`${name} is not set.`);
    return value;
  }
}

@Module({ providers: [ConfigService], exports: [ConfigService] })
export class ConfigModule {}
