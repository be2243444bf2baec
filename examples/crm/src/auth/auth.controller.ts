import { Body, Controller, HttpCode, Post, UnauthorizedException } from '@nestjs/common';
import { Throttle } from '@nestjs/throttler';
import { IsString } from 'class-validator';
import { AuthService } from './auth.service.js';
import { Public } from './guards.js';

export class LoginDto {
  @IsString() name!: string;
  @IsString() password!: string;
}

@Controller('auth')
export class AuthController {
  constructor(private readonly auth: AuthService) {}

  @Public()
  @Throttle({ default: { limit: 10, ttl: 60_000 } })
  @Post('login')
  @HttpCode(200)
  async login(@Body() { name, password }: LoginDto): Promise<{ token: string }> {
    const caller = await this.auth.login(name, password);
    if (!caller) throw new UnauthorizedException('No such user, or another password.');
    return { token: await this.auth.token(caller) };
  }
}
