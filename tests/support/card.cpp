// Lets a torch without CUDA index and convert tensors that say they are on a card: it asks a guard which device is current.
#include <c10/core/impl/DeviceGuardImplInterface.h>

struct Guard final : c10::impl::DeviceGuardImplInterface {
  inline static thread_local c10::DeviceIndex current = 0;
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device getDevice() const override { return {type(), current}; }
  c10::Device exchangeDevice(c10::Device to) const override { auto before = getDevice(); current = to.index(); return before; }
  void setDevice(c10::Device to) const override { current = to.index(); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { current = to.index(); }
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
};
static c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::CUDA, new Guard());
